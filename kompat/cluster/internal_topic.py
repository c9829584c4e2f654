"""The partitions of an internal topic, for its coordinators."""

from __future__ import annotations

from collections.abc import Sequence

from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.coordination.shards import Partitions
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.types import LogId


class InternalTopic:
    def __init__(self, name: str, cluster: ClusterService, logs: Logs) -> None:
        self.name = name
        self._cluster = cluster
        self._logs = logs
        self._known: tuple[Topic | None, Partitions] = (None, ())

    def existing(self) -> Partitions:
        """Empty if the topic does not exist."""
        topic = self._cluster.topic(self.name)
        return self._partitions(topic) if topic is not None else ()

    async def ensure(self) -> Partitions:
        """Creates the topic if it does not exist. Raises KafkaError."""
        return self._partitions(await self._cluster.ensure_internal_topic(self.name))

    def log_ids(self) -> Sequence[LogId]:
        """All partitions, on whichever broker they are led."""
        topic = self._cluster.topic(self.name)
        return [LogId(topic.id, each.index) for each in topic.partitions] if topic is not None else ()

    def hosted(self) -> list[Partition]:
        """Those that this broker has a replica of."""
        return [partition for partition in self.existing() if partition is not None]

    async def ensure_hosted(self) -> list[Partition]:
        return [partition for partition in await self.ensure() if partition is not None]

    def _partitions(self, topic: Topic) -> Partitions:
        """It is looked up with every command, so the result is cached until the topic changes."""
        known_topic, known = self._known
        if known_topic is topic:
            return known
        partitions = [self._logs.find_by_id(topic.id, each.index) for each in topic.partitions]
        if None not in partitions:
            self._known = (topic, partitions)
        return partitions
