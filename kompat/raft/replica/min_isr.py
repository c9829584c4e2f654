"""Acknowledgements that wait for more replicas than a commit needs: where min.insync.replicas is more than a majority. Pure."""

from __future__ import annotations

from collections import deque

from kompat.common.promise import Promise
from kompat.errors import KafkaError
from kompat.types import RaftIndex


class MinIsrAcks:
    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[RaftIndex, Promise[None]]] = deque()  # in the order of the log

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiting)

    def wait(self, index: RaftIndex) -> Promise[None]:
        """Done when enough replicas have the entry at `index`, the log's last."""
        if not self._waiting or self._waiting[-1][0] != index:
            self._waiting.append((index, Promise()))
        return self._waiting[-1][1]

    def reached(self, index: RaftIndex) -> None:
        """Enough replicas have all up to `index`."""
        while self._waiting and self._waiting[0][0] <= index:
            self._waiting.popleft()[1].resolve()

    def give_up(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, promise in waiting:
            promise.fail(error)
