"""A share partition the simple way: one entry a record, and no cleverness."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kompat.share.machine.messages import AckType, RecordState
from kompat.share.machine.settings import ShareSettings

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED
DONE = (ACKNOWLEDGED, ARCHIVED)
DEFAULT, NEVER = 4, 1 << 62


class Ranked(NamedTuple):
    priority: int
    came: int
    expires: int


@dataclass
class Entry:
    state: RecordState = AVAILABLE
    deliveries: int = 0
    member: str | None = None
    until: int = 0
    persisted: tuple[RecordState, int] = (AVAILABLE, 0)
    # What it asks for, and when it came; None: nothing is known of it.
    ranked: Ranked | None = None

    def persist(self, state: RecordState, until: int = 0) -> None:
        self.state, self.member, self.until = state, None, until
        self.persisted = (state, self.deliveries)

    def is_available(self, now: int) -> bool:
        return self.state is AVAILABLE and self.until <= now


@dataclass
class Model:
    settings: ShareSettings
    log_start: int = 0
    entries: list[Entry] = field(default_factory=list)  # by offset
    holes: set[int] = field(default_factory=set)
    batches: list[tuple[int, int]] = field(default_factory=list)  # of the log; between them are holes

    @property
    def end(self) -> int:
        return len(self.entries)

    def append(self, size: int, hole: int) -> None:
        """A batch, and offsets without records after it."""
        self.batches.append((self.end, self.end + size - 1))
        self.entries += [Entry() for _ in range(size)]
        self.holes |= set(range(self.end, self.end + hole))
        self.entries += [Entry() for _ in range(hole)]

    @property
    def live(self) -> range:
        return range(self.log_start, self.end)

    def held(self, member: str) -> list[int]:
        return [o for o in self.live if self.entries[o].state is ACQUIRED and self.entries[o].member == member]

    def available(self, now: int) -> list[int]:
        return [o for o in self.live if self.entries[o].is_available(now)]

    # -- classes -------------------------------------------------------------------------------------------------------
    def best(self, offsets: list[int], wall: int, end: int, aging_ms: int | None) -> list[int]:
        """The same offsets, the most urgent first; without an aging, by offset.

        A record of which nothing is known but its place counts as having come with the next one that is known.
        """
        if aging_ms is None:
            return offsets
        places: dict[int, tuple[int, int, int]] = {}
        following = wall
        for o in reversed(range(self.log_start, end)):
            priority, came, _ = self.entries[o].ranked or (DEFAULT, following, NEVER)
            following = came if self.entries[o].ranked is not None else following
            places[o] = (came - priority * aging_ms if aging_ms else 0, -priority, o)
        return sorted(offsets, key=places.__getitem__)

    def expired(self, offsets: list[int], wall: int) -> list[int]:
        return [o for o in offsets if (ranked := self.entries[o].ranked) is not None and ranked.expires <= wall]

    def acquire(self, member: str, offset: int, now: int) -> int:
        entry = self.entries[offset]
        assert entry.is_available(now), f"{offset} is {entry}"
        assert offset not in self.holes
        entry.state, entry.member, entry.until = ACQUIRED, member, now + self.settings.lock_ms
        entry.deliveries += 1
        return entry.deliveries

    def acknowledge(self, offset: int, kind: AckType, now: int) -> None:
        entry = self.entries[offset]
        if kind is AckType.RENEW:
            entry.until = now + self.settings.lock_ms
        elif kind is AckType.ACCEPT:
            entry.persist(ACKNOWLEDGED)
        elif kind is AckType.GAP:
            entry.persist(ARCHIVED)
        elif kind is AckType.RELEASE and entry.deliveries < self.settings.delivery_limit:
            entry.persist(AVAILABLE, now + self.settings.backoff(entry.deliveries))
        else:
            entry.persist(self.given_up)

    @property
    def given_up(self) -> RecordState:
        return ARCHIVING if self.settings.has_dead_letters else ARCHIVED

    def release(self, member: str) -> None:
        for offset in self.held(member):
            self._let_go(self.entries[offset])

    def _let_go(self, entry: Entry) -> None:
        entry.persist(self.given_up if entry.deliveries >= self.settings.delivery_limit else AVAILABLE)

    def tick(self, now: int) -> None:
        for offset in self.live:
            entry = self.entries[offset]
            if 0 < entry.until <= now:
                if entry.state is ACQUIRED:
                    self._let_go(entry)
                else:
                    entry.until = 0

    def crash(self) -> None:
        for entry in self.entries:
            state, entry.deliveries = entry.persisted
            entry.state, entry.member, entry.until = state, None, 0
