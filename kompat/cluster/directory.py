"""Finds leaders, coordinators and the controller for `kompat.rpc`: by the metadata, and by the leaders' announcements."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kompat.coordination.shards import partition_for
from kompat.errors import ErrorCode, KafkaError
from kompat.rpc.messages import Coordinator
from kompat.types import LogId, NodeId, Offset

if TYPE_CHECKING:
    from kompat.cluster.service import ClusterService
    from kompat.log.manager import Logs
    from kompat.log.partition import Partition


class ClusterDirectory:
    def __init__(self, cluster: ClusterService, logs: Logs) -> None:
        self._cluster = cluster
        self._logs = logs

    @property
    def brokers(self) -> Collection[NodeId]:
        return self._cluster.brokers

    def leader(self, log_id: LogId) -> NodeId | None:
        cluster = self._cluster
        # On the controller, a partition that is not in the metadata does not exist.
        if cluster.is_controller and cluster.partition_state(log_id) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
        return cluster.local.leader(log_id)

    def led(self, log_id: LogId) -> Partition | None:
        found = self._logs.find_by_id(log_id.topic_id, log_id.partition)
        return found if found is not None and found.is_led else None

    async def coordinated(self, coordinator: Coordinator) -> LogId:
        topic = await self._cluster.ensure_internal_topic(coordinator.topic)
        return LogId(topic.id, partition_for(coordinator.key, len(topic.partitions)))

    @property
    def controller(self) -> NodeId | None:
        return self._cluster.controller

    @property
    def is_controller(self) -> bool:
        return self._cluster.is_controller

    @property
    def metadata_end(self) -> Offset:
        return self._cluster.end

    @property
    def metadata_read(self) -> Offset:
        return Offset(self._cluster.metadata_offset + 1)

    async def read_metadata(self, end: Offset, seconds: float) -> bool:
        return await self._cluster.reach(end, seconds)
