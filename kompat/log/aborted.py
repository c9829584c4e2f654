"""Aborted transactions of a partition: what a read_committed consumer has to leave out."""

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from struct import Struct

from kompat.types import Offset, ProducerId

_LAYOUT = Struct(">qqqq")


@dataclass(slots=True)
class Aborted:
    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset  # of its marker
    # The first offset of the oldest transaction that was open when this one ended. Nothing that begins before it can
    # be aborted later in the index, so a search may stop where it reaches the end of the requested range.
    last_stable_offset: Offset

    def encode(self) -> bytes:
        return _LAYOUT.pack(self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)

    @classmethod
    def decode(cls, data: bytes) -> "Aborted":
        return cls(*_LAYOUT.unpack(data))


class AbortedIndex:
    """Sorted by the markers' offsets; 32 bytes an entry, since it is as long as retention lets it grow."""

    __slots__ = ("_fields", "_last")

    def __init__(self) -> None:
        self._last = array("q")
        self._fields = array("q")  # producer id, first offset, last stable offset of each

    def __len__(self) -> int:
        return len(self._last)

    def add(self, aborted: Aborted) -> None:
        self._last.append(aborted.last_offset)
        self._fields.extend((aborted.producer_id, aborted.first_offset, aborted.last_stable_offset))

    def find(self, start: Offset, end: Offset) -> list[Aborted]:
        """Those with records in [start, end)."""
        found = []
        for i in range(bisect_left(self._last, start), len(self._last)):
            producer_id, first, stable = self._fields[3 * i : 3 * i + 3]
            if first < end:
                found.append(Aborted(ProducerId(producer_id), Offset(first), Offset(self._last[i]), Offset(stable)))
            if stable >= end:
                break
        return found

    def drop_before(self, offset: Offset) -> list[Offset]:
        """Forget the transactions that end before `offset`. Returns their last offsets."""
        n = bisect_left(self._last, offset)
        dropped = [Offset(last) for last in self._last[:n]]
        del self._last[:n], self._fields[: 3 * n]
        return dropped

    def remove(self, last_offset: Offset) -> bool:
        """Forget the one that ends at `last_offset`; whether there was one."""
        i = bisect_left(self._last, last_offset)
        if i == len(self._last) or self._last[i] != last_offset:
            return False
        del self._last[i], self._fields[3 * i : 3 * i + 3]
        return True
