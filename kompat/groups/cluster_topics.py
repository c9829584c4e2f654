"""The view of the cluster's topics for the group machines."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.groups.machine.topics import TopicInfo


class ClusterTopics:
    def __init__(self, cluster: ClusterService) -> None:
        self._cluster = cluster

    @property
    def version(self) -> int:
        return self._cluster.metadata_offset

    def find(self, name: str) -> TopicInfo | None:
        return _info(self._cluster.topic(name))

    def find_by_id(self, topic_id: UUID) -> TopicInfo | None:
        return _info(self._cluster.topic_by_id(topic_id))

    def names(self) -> Collection[str]:
        return [topic.name for topic in self._cluster.topics()]


def _info(topic: Topic | None) -> TopicInfo | None:
    if topic is None:
        return None
    return TopicInfo(name=topic.name, topic_id=topic.id, partitions=len(topic.partitions))
