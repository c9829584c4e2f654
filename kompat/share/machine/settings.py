"""What a share group's settings say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """Each is named after the group's setting in its comment."""

    lock_ms: int = 30_000  # share.record.lock.duration.ms
    delivery_limit: int = 5  # share.delivery.count.limit
    max_locks: int = 2_000  # share.partition.max.record.locks
    offset_reset: str = "latest"  # share.auto.offset.reset
    is_read_committed: bool = False  # share.isolation.level
    can_renew: bool = True  # share.renew.acknowledge.enable
    # A released record waits before it comes again, each time twice as long: what failed once may well fail again.
    backoff_ms: int = 1_000
    max_backoff_ms: int = 60_000
    has_dead_letters: bool = False  # what is given up is to be written to a dead-letter topic

    def backoff(self, deliveries: int) -> int:
        """How long a record waits that was released after so many deliveries."""
        return min(self.max_backoff_ms, self.backoff_ms << min(deliveries - 1, 32))

    @property
    def isolate_from(self) -> int:
        """From so many deliveries on, fewer records come at once: one bad record must not take its batch along."""
        return max(2, (self.delivery_limit + 1) // 2)
