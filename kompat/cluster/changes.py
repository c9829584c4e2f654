"""What committed records change, for watchers of topics, groups and quotas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from kompat.cluster.quotas import QuotasSet
from kompat.cluster.records import ClusterRecord, ConfigsSet, PartitionsCreated, TopicCreated, TopicDeleted
from kompat.cluster.state import ClusterState, ResourceType


@dataclass(slots=True)
class Changes:
    topics: list[str]  # created, grown or deleted
    deleted: list[tuple[str, UUID]]
    groups: list[str]  # whose settings changed
    configured: list[str] = field(default_factory=list)  # topics whose settings changed
    quotas: bool = False  # of any clients

    def __bool__(self) -> bool:
        return bool(self.topics or self.groups or self.configured or self.quotas)


def changes_of(records: Iterable[ClusterRecord], before: ClusterState) -> Changes:
    changes = Changes([], [], [])
    for record in records:
        if isinstance(record, TopicCreated):
            changes.topics.append(record.topic.name)
        elif isinstance(record, PartitionsCreated | TopicDeleted):
            topic = before.topics_by_id.get(record.topic_id)
            if topic is not None:
                changes.topics.append(topic.name)
                if isinstance(record, TopicDeleted):
                    changes.deleted.append((topic.name, topic.id))
        elif isinstance(record, ConfigsSet) and record.resource.type is ResourceType.GROUP:
            changes.groups.append(record.resource.name)
        elif isinstance(record, ConfigsSet) and record.resource.type is ResourceType.TOPIC:
            changes.configured.append(record.resource.name)
        elif isinstance(record, QuotasSet):
            changes.quotas = True
    return changes
