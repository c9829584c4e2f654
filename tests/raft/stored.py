"""The log, hard state and members of one Raft group, in memory, for tests of the engine alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from kompat.raft.engine import (
    ConfState,
    Entry,
    EntryTuple,
    GroupState,
    HardState,
    Position,
    RaftEntryKind,
    Ready,
    Snapshot,
)

Stored = tuple[int, int, bytes, bytes]
"""Term, kind, context, payload."""


@dataclass
class Image:
    """What lies on the disk."""

    hard_state: HardState
    base: Position
    members: ConfState
    applied: int
    log: list[Stored] = field(default_factory=list)

    @classmethod
    def of(cls, state: GroupState) -> Image:
        return cls(state.hard_state, state.base, state.members, state.applied)

    @property
    def last(self) -> int:
        return self.base[0] + len(self.log)

    def at(self, index: int) -> Stored:
        return self.log[index - self.base[0] - 1]

    def write(self, index: int, stored: Stored) -> None:
        at = index - self.base[0] - 1
        assert at <= len(self.log), f"a gap before {index}"
        self.log[at : at + 1] = [stored]

    def cut(self, index: int) -> None:
        del self.log[index - self.base[0] - 1 :]

    def install(self, snapshot: Snapshot) -> None:
        self.base = (snapshot.index, snapshot.term)
        self.log.clear()
        self.members, self.applied = snapshot.members, snapshot.index

    def compact(self, index: int) -> None:
        term = self.at(index)[0]
        del self.log[: index - self.base[0]]
        self.base = (index, term)

    def state(self) -> GroupState:
        first = self.base[0] + 1
        runs: list[Position] = []
        for index, stored in enumerate(self.log, first):
            if not runs or runs[-1][1] != stored[0]:
                runs.append((index, stored[0]))
        return GroupState(
            members=self.members,
            hard_state=self.hard_state,
            base=self.base,
            last=self.last,
            runs=runs,
            applied=self.applied,
            memberships=[
                (index, *stored)
                for index, stored in enumerate(self.log, first)
                if stored[1] == RaftEntryKind.MEMBERSHIP and index > self.applied
            ],
        )

    def entries(self, first: int, end: int, max_bytes: int) -> list[EntryTuple]:
        found: list[EntryTuple] = []
        for index in range(first, min(end, self.last + 1)):
            found.append((index, *self.at(index)))
            max_bytes -= len(found[-1][4])
            if max_bytes <= 0:
                break
        return found


@dataclass(frozen=True)
class Applied:
    """What the replica notes when its members change or it compacts: both of the same index."""

    index: int
    members: ConfState
    compacts: bool


class EngineLog:
    """What a group has stored, by a driver that writes everything at once."""

    def __init__(self, state: GroupState) -> None:
        self.now = Image.of(state)

    def write(self, what: Ready | Applied) -> None:
        image = self.now
        if isinstance(what, Applied):
            image.members, image.applied = what.members, what.index
            if what.compacts:
                image.compact(what.index)
            return
        if what.snapshot:
            image.install(what.snapshot)
        if what.entries:
            image.cut(what.entries[0].index)
        for entry in what.entries:
            image.write(entry.index, stored(entry))
        if what.hard_state:
            image.hard_state = what.hard_state


def stored(entry: Entry) -> Stored:
    return entry.term, entry.kind, entry.context, bytes(entry.payload)
