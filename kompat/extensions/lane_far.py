"""What waits in lanes, in any partition of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kompat.extensions.anywhere import Anywhere
from kompat.extensions.lane_service import LaneService, LaneStatistics


class FarLanes:
    def __init__(self, here: LaneService, anywhere: Anywhere) -> None:
        self.here = here  # what this broker leads
        self._anywhere = anywhere
        anywhere.serve("lane-statistics", self._on_statistics)
        anywhere.serve("lane-partition", self._on_partition)
        anywhere.serve("lane-partitions", self._on_partitions)

    async def of_partition(self, topic: str, partition: int) -> LaneStatistics:
        place = self._anywhere.place(topic, partition)
        if self._anywhere.led(place) is not None:
            return self.here.of_partition(topic, partition)
        return _read(await self._anywhere.ask(place, "lane-partition", [place.topic_id.hex, partition]))

    async def statistics(self, topic: str | None = None) -> LaneStatistics:
        """Of one topic, or of all: as far as brokers can be reached that lead their partitions."""
        if topic is not None:
            self._anywhere.topic(topic)
        others = await self._anywhere.ask_others("lane-statistics", [topic])
        parts = [self.here.statistics(topic), *map(_read, others)]
        return LaneStatistics(
            depths=[sum(depths) for depths in zip(*(each.depths for each in parts), strict=True)],
            undecided=sum(each.undecided for each in parts),
            size=sum(each.size for each in parts),
        )

    async def by_partition(self) -> dict[str, dict[int, Sequence[int]]]:
        """What waits by class, in each partition that has some."""
        found = self.here.by_partition()
        for told in await self._anywhere.ask_others("lane-partitions", []):
            for topic, partition, depths in told:
                found.setdefault(topic, {})[partition] = depths
        return found

    async def _on_statistics(self, told: Sequence[Any]) -> list[Any]:
        return _told(self.here.statistics(told[0]))

    async def _on_partition(self, told: Sequence[Any]) -> list[Any]:
        log = self._anywhere.required(told)
        return _told(self.here.of_partition(log.topic, log.index))

    async def _on_partitions(self, _: object) -> list[Any]:
        found = self.here.by_partition()
        return [[topic, partition, depths] for topic, each in found.items() for partition, depths in each.items()]


def _told(found: LaneStatistics) -> list[Any]:
    return [list(found.depths), found.undecided, found.size]


def _read(told: Sequence[Any]) -> LaneStatistics:
    depths, undecided, size = told
    return LaneStatistics(depths=depths, undecided=undecided, size=size)
