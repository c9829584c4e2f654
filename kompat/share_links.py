"""Where share groups meet the other brokers of a cluster: those that keep their states, and those that lead what they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kompat.cluster.service import ClusterService
from kompat.errors import ErrorCode, KafkaError
from kompat.log.manager import Logs
from kompat.share.records import ShareKey
from kompat.share.requests import TopicIdPartition
from kompat.share.service import ShareService
from kompat.types import LogId

if TYPE_CHECKING:
    from kompat.cluster.member import Member

SHARES = "__share_group_state"


class ShareLinks:
    """By way of the partitions' leaders: this broker asks, and answers what others ask."""

    def __init__(self, cluster: ClusterService, member: Member, logs: Logs) -> None:
        self._cluster = cluster
        self._asking = member.asking
        self._logs = logs
        self._shares: ShareService

    def bind(self, shares: ShareService) -> None:
        """Before anything is asked: it needs this to be built."""
        self._shares = shares
        self._asking.serve("share-home", self._on_home)
        self._asking.serve("share-resume", self._on_resume)
        self._asking.serve("share-fence", self._on_fence)
        self._asking.serve("share-bounds", self._on_bounds)

    # -- asking ----------------------------------------------------------------------------------------------------
    async def ask_home(self, place: int, command: str, arguments: Sequence[Any]) -> Any:
        topic = self._cluster.topic(SHARES)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return await self._asking.ask(LogId(topic.id, place), "share-home", [place, command, arguments])

    async def ask_leader(self, partition: TopicIdPartition, command: str, arguments: Sequence[Any]) -> Any:
        told = [partition.topic_id.hex, partition.partition, *arguments]
        return await self._asking.ask(LogId(*partition), f"share-{command}", told)

    # -- answering -------------------------------------------------------------------------------------------------
    async def _on_home(self, told: Sequence[Any]) -> Any:
        place, command, arguments = told
        return await self._shares.homes.serve(place, command, arguments)

    async def _on_resume(self, told: Sequence[Any]) -> None:
        topic_id, partition, group_id = told
        self._shares.find(group_id, TopicIdPartition(UUID(topic_id), partition))

    async def _on_fence(self, told: Sequence[Any]) -> None:
        topic_id, partition, group_id = told
        self._shares.fence([ShareKey(group_id, UUID(topic_id), partition)])

    async def _on_bounds(self, told: Sequence[Any]) -> list[int]:
        topic_id, partition = told
        log = self._logs.find_by_id(UUID(topic_id), partition)
        if log is None or not log.is_led:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return [log.log_start_offset, log.high_watermark]
