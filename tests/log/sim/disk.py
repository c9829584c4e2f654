"""A disk that forgets what was not forced onto it, if the machine stops."""

from random import Random

from kompat.errors import StorageError
from kompat.log.memory import MemoryStore, Write


class SimDisk(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.is_gone = False  # the broker that worked here is dead
        self._turns: list[list[Write]] = []
        self._syncing = 0
        self._synced = 0

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
        left = SimDisk()
        left._turns = self._turns[:kept]
        left._synced = kept
        left.lost_power = of_machine
        self.is_gone = True
        left._logs, self._logs = self._logs, {}
        if kept < len(self._turns):
            for data in left._logs.values():
                data.clear()
            for turn in left._turns:
                for write in turn:
                    write()
        return left
