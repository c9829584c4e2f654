"""Makes groups whose records are taken by receipt known to their coordinators: as share groups without members, that can be
listed, described, reset and deleted like all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kompat.cluster.names import CONSUMER_OFFSETS
from kompat.cluster.queue_rules import SOURCE
from kompat.cluster.service import ClusterService
from kompat.coordination.shards import home_of
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.service import GroupService
from kompat.types import LogId

COMMAND = "share-adopt"


class ShareRegistry:
    """In a cluster by way of whoever coordinates the group, else at once."""

    def __init__(self, cluster: ClusterService, groups: GroupService) -> None:
        self._cluster = cluster
        self._groups = groups
        if cluster.member is not None:
            cluster.member.asking.serve(COMMAND, self._on_adopt)

    async def adopt(self, group_id: str, topic_id: UUID) -> None:
        """Let the group have states of a topic's partitions. Raises KafkaError where its coordinator cannot be asked."""
        used = self._cluster.topic(group_id)
        if used is not None and used.configs.get(SOURCE):
            return  # a queue topic: that is what there is to be listed and deleted
        if self._cluster.member is None:
            await self._adopt(group_id, topic_id)
            return
        topic = await self._cluster.ensure_internal_topic(CONSUMER_OFFSETS)
        home = LogId(topic.id, home_of(group_id, len(topic.partitions)))
        await self._cluster.member.asking.ask(home, COMMAND, [group_id, topic_id.hex])

    async def _on_adopt(self, told: Sequence[Any]) -> None:
        group_id, topic_id = told
        await self._adopt(group_id, UUID(topic_id))

    async def _adopt(self, group_id: str, topic_id: UUID) -> None:
        topic = self._cluster.topic_by_id(topic_id)
        if topic is None:
            return
        try:
            partitions = frozenset(each.index for each in topic.partitions)
            await self._groups.adopt_share_partitions(group_id, {topic_id: partitions})
        except KafkaError as error:
            # Else it is a group of another kind, or its members have what they need made: it is listed already.
            if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP):
                raise
