"""A partition whose records wait in lanes; consumers ask for more when the test says so."""

from typing import Any, cast

from kompat.common.promise import Promise
from kompat.extensions.partitions import PartitionLookup
from kompat.extensions.priority.requests import LaneStatistics
from kompat.extensions.priority.service import LaneService
from kompat.log.manager import Logs
from kompat.protocol.records import Record
from tests.extensions.support import ExtendedLog, run

PLENTY = 1 << 20


class LanesLog(ExtendedLog):
    def __init__(self, **config: Any) -> None:
        super().__init__(**{"kompat_delivery_order": "priority"} | config)

    def _open(self) -> None:
        super()._open()
        self.lanes = LaneService(PartitionLookup(self.broker), self.broker.rpc, cast("Logs", self))

    def turn(self, order: str, **config: Any) -> None:
        """Change the setting."""
        self.configure(kompat_delivery_order=order, **config)

    # -- asking ----------------------------------------------------------------------------------------------------
    def ask(self, reader: object, max_bytes: int = PLENTY) -> bool:
        """A consumer is at the log's end, and waits."""
        fetch_listener = self.partition.fetch_listener
        return fetch_listener is not None and fetch_listener.reader_waiting(reader, max_bytes)

    def leave(self, reader: object) -> None:
        if self.partition.fetch_listener is not None:
            self.partition.fetch_listener.reader_gone(reader)

    def poll(self, max_bytes: int = PLENTY) -> list[str]:
        """What one fetch at the log's end gets."""
        before = len(self.texts())
        self.ask(self, max_bytes)
        self.leave(self)
        self.commit.end_turn()
        return self.texts()[before:]

    def drain(self) -> list[str]:
        found: list[str] = []
        while more := self.poll():
            found += more
        return found

    def settle(self) -> Promise[None]:
        """Somebody asks where the log ends."""
        fetch_listener = self.partition.fetch_listener
        settled = fetch_listener.release_all() if fetch_listener is not None else Promise.resolved(None)
        for _ in range(1000):
            if settled.is_done:
                return settled
            self.commit.end_turn()
        raise AssertionError("there is no end to it")

    def lane_statistics(self) -> LaneStatistics:
        return run(self.lanes.statistics())

    @property
    def depths(self) -> dict[int, int]:
        """Of the lanes that are not empty."""
        return {priority: count for priority, count in enumerate(self.lane_statistics().depths) if count}


def slots_of(records: list[Record]) -> list[int]:
    return [int(dict(record.headers)["kompat-original-offset"] or b"") for record in records]
