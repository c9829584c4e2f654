"""Partitions by their names, wherever they are led: those that this broker leads itself, and whom to ask of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.types import LogId

log = logging.getLogger(__name__)


class Anywhere:
    def __init__(self, cluster: ClusterService, logs: Logs) -> None:
        self._cluster = cluster
        self._logs = logs
        self._asking = cluster.member.asking if cluster.member is not None else None

    # -- finding ---------------------------------------------------------------------------------------------------
    def topic(self, name: str) -> Topic:
        found = self._cluster.topic(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return found

    def exists(self, name: str) -> bool:
        return self._cluster.topic(name) is not None

    def place(self, name: str, partition: int) -> LogId:
        topic = self.topic(name)
        if not 0 <= partition < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of {name}")
        return LogId(topic.id, partition)

    def places(self, name: str) -> list[LogId]:
        topic = self.topic(name)
        return [LogId(topic.id, each.index) for each in topic.partitions]

    def led(self, place: LogId) -> Partition | None:
        """None: another broker leads it, or none does."""
        found = self._logs.find_by_id(place.topic_id, place.partition)
        return found if found is not None and found.is_led else None

    # -- asking ----------------------------------------------------------------------------------------------------
    def serve(self, command: str, work: Callable[[Any], Awaitable[Any]]) -> None:
        if self._asking is not None:
            self._asking.serve(command, work)

    async def ask(self, place: LogId, command: str, arguments: Sequence[Any]) -> Any:
        """Its leader's reply. Raises the KafkaError that it was refused with."""
        if self._asking is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition is not here")
        return await self._asking.ask(place, command, arguments)

    async def ask_others(self, command: str, arguments: Sequence[Any]) -> list[Any]:
        """What all other brokers reply that can be reached: what the rest leads, others will lead soon."""
        if self._asking is None:
            return []
        asking = self._asking
        nodes = [node for node in self._cluster.brokers if node != asking.me]
        answers = await asyncio.gather(
            *(asking.ask_node(node, command, arguments) for node in nodes), return_exceptions=True
        )
        found = []
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, KafkaError):
                log.debug("a broker cannot be asked", extra={"node": node, "reason": str(answer)})
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append(answer)
        return found

    def required(self, told: Sequence[Any]) -> Partition:
        """The partition that another broker asks about, by the first two things that it tells: one that is led here."""
        found = self.led(LogId(UUID(told[0]), told[1]))
        if found is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the partition")
        return found
