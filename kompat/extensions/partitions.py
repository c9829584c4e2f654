"""The cluster's partitions by the names of their topics, as addresses for requests to their leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kompat.cluster.state import Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.types import LogId


class Topics(Protocol):
    """The part of `ClusterService` that is needed here."""

    def topic(self, name: str) -> Topic | None: ...


class PartitionLookup:
    """Raises UNKNOWN_TOPIC_OR_PARTITION for what does not exist."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def topic(self, name: str) -> Topic:
        found = self._topics.topic(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return found

    def log_id(self, name: str, partition: int) -> LogId:
        topic = self.topic(name)
        if not 0 <= partition < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of {name}")
        return LogId(topic.id, partition)

    def log_ids(self, name: str, partitions: Sequence[int] | None = None) -> list[LogId]:
        """Of all its partitions, or of these."""
        if partitions is not None:
            return [self.log_id(name, partition) for partition in partitions]
        topic = self.topic(name)
        return [LogId(topic.id, each.index) for each in topic.partitions]
