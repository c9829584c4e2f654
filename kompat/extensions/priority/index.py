"""A partition's index of records with a class or a time to live, for queues; entries before the log start are removed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kompat.common.promise import Promise
from kompat.errors import KafkaError
from kompat.extensions.priority import headers as priority
from kompat.extensions.priority.order import CLASSES, ByClass, RankedBatch
from kompat.extensions.states import View
from kompat.log.interceptor import StateWrite
from kompat.log.partition import Partition
from kompat.share.machine.order import ByOffset, Order

BYTES_AT_ONCE = 16 << 10  # about a thousand runs
FORGOTTEN_AT_ONCE = 500  # states: the rest follows in the next turn


class PriorityIndex:
    """The index for share groups (Ranked)."""

    __slots__ = ("_forgotten", "_is_known", "_is_under_way", "_newest", "_partition", "_view")

    def __init__(self, partition: Partition, view: View, *, is_extended: bool) -> None:
        """Without extensions in use there is nothing to look up."""
        self._partition = partition
        self._view = view
        self._newest: Sequence[int] | None = None
        self._is_known = not is_extended
        self._forgotten: list[
            int
        ] = []  # deleted up to here, of each class: the store would iterate over deleted states
        self._is_under_way = False

    def newest(self) -> Sequence[int] | None:
        if not self._is_known:
            self._newest = priority.decode_newest(self._view.get(priority.SUMMARY))
            self._is_known = True
        return self._newest

    def find(self, class_: int, first: int, end: int, limit: int) -> list[RankedBatch]:
        found = self._view.range(priority.name_of(class_, first), priority.name_of(class_, end), limit, BYTES_AT_ONCE)
        return [priority.decode(value) for _, value in found]

    # -- what happens to the log -----------------------------------------------------------------------------------
    def staged(self, writes: Sequence[StateWrite]) -> None:
        if any(name == priority.SUMMARY for name, _ in writes):
            self._is_known = False

    def reload(self, *, is_extended: bool) -> None:
        self._newest = None
        self._is_known = not is_extended
        self._forgotten.clear()

    def forget_old(self) -> None:
        """Remove entries before the log start, soon, and some in every turn."""
        if not self._is_under_way and self.newest() is not None:
            self._is_under_way = True
            asyncio.get_running_loop().call_soon(self._forget_some)

    def _forget_some(self) -> None:
        self._is_under_way = False
        if self._partition.is_dropped:
            return
        try:
            writes = self._old()
            if writes:
                written = self._partition.write_states(writes)
                self._is_under_way = True
                written.add_done_callback(self._go_on)
        except KafkaError:  # the leader of the partition does it; or it succeeds the next time
            self._forgotten.clear()

    def _go_on(self, done: Promise[None]) -> None:
        self._is_under_way = False
        if done.error is None:
            self.forget_old()
        else:
            self._forgotten.clear()

    def _old(self) -> list[StateWrite]:
        start = self._partition.log_start_offset
        self._forgotten = self._forgotten or [0] * CLASSES
        writes: list[StateWrite] = []
        for class_ in range(CLASSES):
            limit = FORGOTTEN_AT_ONCE - len(writes)
            if limit > 0 and self._forgotten[class_] < start:
                first, end = priority.name_of(class_, self._forgotten[class_]), priority.name_of(class_, start)
                found = self._view.range(first, end, limit)
                writes += [(name, None) for name, _ in found]
                self._forgotten[class_] = start if len(found) < limit else priority.last_of(found[-1][0]) + 1
        return writes


def order_of(partition: Partition) -> Order:
    """The order in which a share group is given a partition's records. Each group has its own."""
    index = getattr(partition.interceptor, "priorities", None)
    return ByClass(index) if isinstance(index, PriorityIndex) else ByOffset()
