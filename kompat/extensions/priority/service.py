"""Looking at what waits in the lanes of topics that are delivered by priority."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from kompat.common.slices import sliced
from kompat.extensions.interceptor import PartitionInterceptor
from kompat.extensions.partitions import PartitionLookup
from kompat.extensions.priority.lanes import CLASSES, Summary
from kompat.extensions.priority.requests import DescribeLanes, DescribePartitionLanes, LaneStatistics, ListLaneDepths
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.rpc.router import Router


class LaneService:
    def __init__(self, partitions: PartitionLookup, rpc: Router, logs: Logs) -> None:
        self._partitions = partitions
        self._rpc = rpc
        self._logs = logs
        rpc.serve(DescribePartitionLanes, self._describe_partition)
        rpc.serve(DescribeLanes, self._describe)
        rpc.serve(ListLaneDepths, self._list_depths)

    async def of_partition(self, topic: str, partition: int) -> LaneStatistics:
        return await self._rpc.call(self._partitions.log_id(topic, partition), DescribePartitionLanes())

    async def statistics(self, topic: str | None = None) -> LaneStatistics:
        """Of one topic, or of all: as far as brokers can be reached that lead their partitions."""
        if topic is not None:
            self._partitions.topic(topic)
        parts = await self._rpc.call_all(DescribeLanes(topic))
        return LaneStatistics(
            depths=[sum(depths) for depths in zip(*(each.depths for each in parts), strict=True)],
            undecided=sum(each.undecided for each in parts),
            size=sum(each.size for each in parts),
        )

    async def by_partition(self) -> dict[str, dict[int, Sequence[int]]]:
        """What waits by class, in each partition that has some."""
        found: dict[str, dict[int, Sequence[int]]] = {}
        for topics in await self._rpc.call_all(ListLaneDepths()):
            for topic, partitions in topics.items():
                found.setdefault(topic, {}).update(partitions)
        return found

    # -- what the leader does --------------------------------------------------------------------------------------
    async def _describe_partition(self, partition: Partition, _: DescribePartitionLanes) -> LaneStatistics:
        return _total(
            [partition.interceptor.lanes.summary] if isinstance(partition.interceptor, PartitionInterceptor) else []
        )

    async def _describe(self, request: DescribeLanes) -> LaneStatistics:
        found = [each async for each in self._interceptors() if request.topic in (None, each.partition.topic)]
        return _total([each.lanes.summary for each in found])

    async def _list_depths(self, _: ListLaneDepths) -> dict[str, dict[int, Sequence[int]]]:
        found: dict[str, dict[int, Sequence[int]]] = {}
        async for each in self._interceptors():
            depths = _total([each.lanes.summary]).depths
            if any(depths):
                found.setdefault(each.partition.topic, {})[each.partition.index] = depths
        return found

    async def _interceptors(self) -> AsyncIterator[PartitionInterceptor]:
        """Of the partitions that this broker leads, without those in which nothing has ever waited."""
        async for log in sliced(self._logs.all()):
            interceptor = log.interceptor
            if log.is_led and isinstance(interceptor, PartitionInterceptor) and interceptor.is_used:
                yield interceptor


def _total(found: Sequence[Summary]) -> LaneStatistics:
    return LaneStatistics(
        depths=[sum(each.lanes[priority].count for each in found) for priority in range(CLASSES)],
        undecided=sum(each.undecided for each in found),
        size=sum(each.size for each in found),
    )
