"""Which leader epoch (Raft term) wrote which offsets: a list of (epoch, first offset), both growing."""

from bisect import bisect_right
from collections.abc import Iterable

from kompat.types import LeaderEpoch, Offset

UNDEFINED_EPOCH = LeaderEpoch(-1)
UNDEFINED_OFFSET = Offset(-1)


class Epochs:
    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def latest(self) -> LeaderEpoch:
        return LeaderEpoch(self._epochs[-1]) if self._epochs else UNDEFINED_EPOCH

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start: int) -> bool:
        """Note that `epoch` begins at `start`; an epoch that is known already, or older, changes nothing."""
        if self._epochs and epoch <= self._epochs[-1]:
            return False
        # An epoch that ends where it began has written nothing: whatever began at or after `start` is void.
        while self._starts and self._starts[-1] >= start:
            self._starts.pop()
            self._epochs.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        return True

    def at(self, offset: Offset) -> LeaderEpoch:
        """The epoch that wrote `offset`."""
        i = bisect_right(self._starts, offset) - 1
        return LeaderEpoch(self._epochs[i]) if i >= 0 else UNDEFINED_EPOCH

    def end_offset(self, epoch: int, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """The largest epoch up to `epoch`, and where it ends; undefined where `epoch` is unknown to this log."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return LeaderEpoch(epoch), log_end_offset
        higher = bisect_right(self._epochs, epoch)
        # Below the oldest epoch that is kept: it ended where that one begins.
        floor = self._epochs[higher - 1] if higher > 0 else epoch
        return LeaderEpoch(floor), Offset(self._starts[higher])

    def drop_before(self, offset: Offset) -> None:
        """Forget what lies before the log's start; the epoch that spans it begins there now."""
        i = bisect_right(self._starts, offset) - 1
        if i < 0:
            return
        del self._epochs[:i], self._starts[:i]
        self._starts[0] = offset

    def truncate_from(self, offset: Offset) -> None:
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
