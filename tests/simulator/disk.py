"""A disk that forgets what was not forced onto it, if the machine stops, and whose bits may flip."""

from collections.abc import Sequence
from random import Random
from threading import Lock
from typing import Any

from kompat import _native
from kompat.errors import DamagedBatch, StorageError
from kompat.log.storage.incarnation import Incarnation, Incarnations
from kompat.log.storage.memory import MemoryPartition, MemoryStore, Write, _Data
from kompat.log.storage.store import Rewrite, Run
from kompat.types import Buffer, LogId, Offset


class SimPartition(MemoryPartition):
    """Checks what it reads, as the store on disk does."""

    __slots__ = ("is_worn_out",)

    def __init__(self, data: _Data, staged: list[Write], lock: Lock) -> None:
        super().__init__(data, staged, lock)
        self.is_worn_out = False  # what replaces a damaged batch is damaged, too

    def rewrite(self, replacements: Sequence[Rewrite], segment: Offset) -> None:
        if not self.is_worn_out:
            super().rewrite(replacements, segment)

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> Run:
        run = super().read(offset, max_bytes, end)
        good: list[Buffer] = []
        at = self._data.position(offset)
        for content in run.buffers:
            if _native.whole_batches(content) != len(content):
                break
            good.append(content)
        if len(good) == len(run.buffers):
            return run
        bad = self._data.batches[at + len(good)]
        if not good:
            raise DamagedBatch(f"batch {bad.base_offset} is damaged", bad.base_offset, bad.last_offset)
        return Run(good, sum(map(len, good)), bad.base_offset)

    def damage(self, base_offset: int, byte: int = -1) -> None:
        """Flip bits of a stored batch."""
        place = self._data.bases.index(Offset(base_offset))
        content = bytearray(self._data.contents[place])
        content[byte] ^= 0x55
        self._data.contents[place] = bytes(content)

    def is_damaged(self, base_offset: int) -> bool:
        content = self.content(base_offset)
        return _native.whole_batches(content) != len(content)

    def content(self, base_offset: int) -> bytes:
        return self._data.contents[self._data.bases.index(Offset(base_offset))]

    def bases(self) -> list[Offset]:
        return list(self._data.bases)


class SimIncarnations(Incarnations):
    """On a simulated disk."""

    def __init__(self, stored: dict[str, Any]) -> None:
        self.stored = stored
        super().__init__(None)

    def _load(self) -> Incarnation | None:
        self._known = dict(self.stored.get("known", {}))
        self._past = list(self.stored.get("past", []))
        found: Incarnation | None = self.stored.get("mine")
        return found

    def _write(self, mine: Incarnation) -> bool:
        self.stored = {"mine": mine, "past": list(self._past), "known": dict(self._known)}
        return True


class SimDisk(MemoryStore):
    def __init__(self, stored: dict[str, Any] | None = None) -> None:
        super().__init__()
        self._found = stored or {}  # before this run
        self.incarnations: SimIncarnations = SimIncarnations(self._found)
        self._saved: tuple[int, dict[str, Any]] | None = None  # a copy that somebody has made: its turns, and the rest
        self.is_full = False
        self.is_gone = False  # the broker that worked here is dead
        self._turns: list[list[Write]] = []
        self._syncing = 0
        self._synced = 0

    def open(self, log: LogId) -> SimPartition:
        return SimPartition(self._logs.setdefault(log, _Data()), self._staged, self._lock)

    def flush(self) -> None:
        if self.is_gone:
            self._staged.clear()
            return
        if self.is_full:
            self._staged.clear()
            raise StorageError("no space left")
        if self._staged:
            self._turns.append(list(self._staged))
        super().flush()

    def begin_sync(self) -> None:
        self._syncing = len(self._turns)

    def sync(self) -> None:
        self._synced = max(self._synced, self._syncing)

    def crash(self, random: Random, *, of_machine: bool) -> "SimDisk":
        """What is there after the broker, or its whole machine, has stopped."""
        kept = random.randint(self._synced, len(self._turns)) if of_machine else len(self._turns)
        left = SimDisk(self.incarnations.stored)
        left._saved = self._saved
        left._turns = self._turns[:kept]
        left._synced = kept
        left.lost_power = of_machine
        self.is_gone = True
        left._logs, self._logs = self._logs, {}
        if kept < len(self._turns):
            left._replay()
        return left

    def _replay(self) -> None:
        for data in self._logs.values():
            data.clear()
        for turn in self._turns:
            for write in turn:
                write()

    # -- somebody is at the data directory, while no broker is -----------------------------------------------------
    def save(self) -> None:
        """Copy it, while no broker works there."""
        self._saved = len(self._turns), self._found

    @property
    def is_empty(self) -> bool:
        return not self._turns

    def emptied(self) -> "SimDisk":
        return SimDisk()

    def put_back(self) -> "SimDisk":
        """To what was saved, if anything was."""
        if self._saved is None:
            return self.emptied()
        turns, stored = self._saved
        older = SimDisk(stored)
        older._saved = self._saved
        older._turns, older._synced = self._turns[:turns], turns
        older._logs, self._logs = self._logs, {}
        older._replay()
        return older
