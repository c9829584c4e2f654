"""Registers groups that are used by receipt at their coordinators: as share groups without members, which can be
listed, described, reset and deleted like all others."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from kompat.cluster.names import CONSUMER_OFFSETS
from kompat.cluster.queue_rules import SOURCE
from kompat.cluster.service import ClusterService
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition
from kompat.rpc.messages import Coordinator, LeaderRequest
from kompat.share.groups.service import ShareGroupService


class RegisterShareGroup(LeaderRequest[None], frozen=True):
    """A request to the group coordinator: initialize the states for a topic's partitions."""

    is_idempotent: ClassVar[bool] = True

    group_id: str
    topic_id: UUID


class ShareRegistry:
    def __init__(self, cluster: ClusterService, groups: ShareGroupService) -> None:
        self._cluster = cluster
        self._groups = groups
        cluster.rpc.serve(RegisterShareGroup, self._register)

    async def register(self, group_id: str, topic_id: UUID) -> None:
        """Raises KafkaError if the group coordinator cannot be reached."""
        used = self._cluster.topic(group_id)
        if used is not None and used.configs.get(SOURCE):
            return  # a queue topic: the topic itself is listed and deleted
        coordinator = Coordinator(CONSUMER_OFFSETS, group_id)
        await self._cluster.rpc.call(coordinator, RegisterShareGroup(group_id, topic_id))

    async def _register(self, _: Partition, request: RegisterShareGroup) -> None:
        topic = self._cluster.topic_by_id(request.topic_id)
        if topic is None:
            return
        try:
            partitions = frozenset(each.index for each in topic.partitions)
            await self._groups.adopt(request.group_id, {request.topic_id: partitions})
        except KafkaError as error:
            # Else it is a group of another type, or its members have initialized the states: it is listed already.
            if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP):
                raise
