"""A partition whose records wait in lanes; consumers ask for more when the test says so."""

from typing import Any, cast

from kompat.extensions.lane_service import LaneService
from kompat.log.commit import Pending
from kompat.log.manager import Logs
from kompat.protocol.records import Record
from tests.extensions.support import ExtendedLog

PLENTY = 1 << 20


class LanesLog(ExtendedLog):
    def __init__(self, **config: Any) -> None:
        super().__init__(**{"kompat_delivery_order": "priority"} | config)

    def _open(self) -> None:
        super()._open()
        self.lanes = LaneService(cast("Logs", self), self.releases)

    def turn(self, order: str, **config: Any) -> None:
        """Change the setting."""
        self.configure(kompat_delivery_order=order, **config)

    # -- asking ----------------------------------------------------------------------------------------------------
    def ask(self, reader: object, max_bytes: int = PLENTY) -> bool:
        """A consumer is at the log's end, and waits."""
        demand = self.partition.demand
        return demand is not None and demand.asked(reader, max_bytes)

    def leave(self, reader: object) -> None:
        if self.partition.demand is not None:
            self.partition.demand.left(reader)

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

    def settle(self) -> Pending:
        """Somebody asks where the log ends."""
        demand = self.partition.demand
        settled = demand.settle() if demand is not None else Pending.done()
        for _ in range(1000):
            if settled.is_done:
                return settled
            self.commit.end_turn()
        raise AssertionError("there is no end to it")

    @property
    def depths(self) -> dict[int, int]:
        """Of the lanes that are not empty."""
        return {priority: count for priority, count in enumerate(self.lanes.statistics().depths) if count}


def slots_of(records: list[Record]) -> list[int]:
    return [int(dict(record.headers)["kompat-original-offset"] or b"") for record in records]
