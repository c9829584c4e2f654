"""The settings of a share group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

DEFAULT_QUEUE_BACKOFF_MS: Final = 1_000
RECEIPT_PREFIX: Final = "receipt-"  # the prefix of the member id that holds a receipt's lock


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """Each is named after the group's setting in its comment."""

    lock_ms: int = 30_000  # share.record.lock.duration.ms
    delivery_limit: int = 5  # share.delivery.count.limit
    max_locks: int = 2_000  # share.partition.max.record.locks
    offset_reset: str = "latest"  # share.auto.offset.reset
    is_read_committed: bool = False  # share.isolation.level
    can_renew: bool = True  # share.renew.acknowledge.enable
    # A released record may wait before it is delivered again, each time twice as long, because it may well fail again. And a
    # rejected record may be written to a dead-letter topic. Share consumers get neither, as with Kafka, unless the group is
    # configured so; consumers with receipts get both, unless the group is configured otherwise.
    backoff_ms: int = 0
    max_backoff_ms: int = 60_000
    has_dead_letters: bool = False
    receipt_backoff_ms: int = DEFAULT_QUEUE_BACKOFF_MS
    has_receipt_dead_letters: bool = False

    def of_receipts(self) -> ShareSettings:
        return replace(self, backoff_ms=self.receipt_backoff_ms, has_dead_letters=self.has_receipt_dead_letters)

    def of_member(self, member: str | None) -> ShareSettings:
        """The settings for a holder of records: a member of the share group, or a receipt."""
        return self.of_receipts() if member is not None and member.startswith(RECEIPT_PREFIX) else self

    def backoff(self, deliveries: int) -> int:
        """How long a record waits that was released after this number of deliveries."""
        return min(self.max_backoff_ms, self.backoff_ms << min(deliveries - 1, 32))

    @property
    def isolate_from(self) -> int:
        """From this number of deliveries on, fewer records are delivered at once, to isolate a bad record from its batch."""
        return max(2, (self.delivery_limit + 1) // 2)
