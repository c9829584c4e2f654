"""What happens to the cluster, as it stands in the metadata log: the key names the kind, the value is JSON.

Unknown kinds stop the broker: a log written by a newer version must not be misread. Unknown fields are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from kompat.cluster.state import Broker, ClusterState, PartitionState, Resource, ResourceType, Topic
from kompat.errors import DamagedData
from kompat.types import LeaderEpoch, NodeId


@dataclass(frozen=True, slots=True)
class ClusterCreated:
    cluster_id: str

    def change(self, state: ClusterState) -> None:
        state.cluster_id = self.cluster_id


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    broker: Broker

    def change(self, state: ClusterState) -> None:
        state.brokers[self.broker.node_id] = self.broker


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic: Topic

    def change(self, state: ClusterState) -> None:
        state.put_topic(self.topic)


@dataclass(frozen=True, slots=True)
class PartitionsCreated:
    topic_id: UUID
    partitions: tuple[PartitionState, ...]

    def change(self, state: ClusterState) -> None:
        topic = state.topics_by_id[self.topic_id]
        state.put_topic(replace(topic, partitions=topic.partitions + self.partitions))


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    topic_id: UUID

    def change(self, state: ClusterState) -> None:
        state.remove_topic(state.topics_by_id[self.topic_id])


@dataclass(frozen=True, slots=True)
class ConfigsSet:
    """All settings that a resource has of its own; none of them are left from before."""

    resource: Resource
    configs: Mapping[str, str]

    def change(self, state: ClusterState) -> None:
        if self.resource.type is ResourceType.TOPIC:
            state.put_topic(replace(state.topics[self.resource.name], configs=self.configs))
        elif self.configs:
            state.configs[self.resource] = self.configs
        else:
            state.configs.pop(self.resource, None)


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    next_id: int  # all below are taken

    def change(self, state: ClusterState) -> None:
        state.next_producer_id = self.next_id


ClusterRecord = (
    ClusterCreated
    | BrokerRegistered
    | TopicCreated
    | PartitionsCreated
    | TopicDeleted
    | ConfigsSet
    | ProducerIdsAllocated
)


def _write_partitions(partitions: tuple[PartitionState, ...]) -> list[list[Any]]:
    return [[p.index, p.leader, p.leader_epoch, p.replicas, p.isr] for p in partitions]


def _read_partitions(rows: list[list[Any]]) -> tuple[PartitionState, ...]:
    # Most partitions have the same few replica sets, so equal ones share one tuple.
    shared: dict[tuple[NodeId, ...], tuple[NodeId, ...]] = {}

    def nodes(found: list[int]) -> tuple[NodeId, ...]:
        key = tuple(NodeId(node) for node in found)
        return shared.setdefault(key, key)

    return tuple(
        PartitionState(index, NodeId(leader), LeaderEpoch(epoch), nodes(replicas), nodes(isr))
        for index, leader, epoch, replicas, isr in rows
    )


def _write_topic(record: TopicCreated) -> dict[str, Any]:
    topic = record.topic
    written = {"name": topic.name, "id": topic.id.hex, "partitions": _write_partitions(topic.partitions)}
    return written | {"configs": dict(topic.configs)} if topic.configs else written


def _read_topic(value: Mapping[str, Any]) -> TopicCreated:
    partitions = _read_partitions(value["partitions"])
    return TopicCreated(Topic(value["name"], UUID(value["id"]), partitions, value.get("configs", {})))


_KINDS: dict[str, tuple[type[Any], Callable[[Any], dict[str, Any]], Callable[[Mapping[str, Any]], ClusterRecord]]] = {
    "cluster": (
        ClusterCreated,
        lambda r: {"id": r.cluster_id},
        lambda v: ClusterCreated(v["id"]),
    ),
    "broker": (
        BrokerRegistered,
        lambda r: {"id": r.broker.node_id, "rack": r.broker.rack},
        lambda v: BrokerRegistered(Broker(NodeId(v["id"]), v["rack"])),
    ),
    "topic": (TopicCreated, _write_topic, _read_topic),
    "partitions": (
        PartitionsCreated,
        lambda r: {"topic": r.topic_id.hex, "partitions": _write_partitions(r.partitions)},
        lambda v: PartitionsCreated(UUID(v["topic"]), _read_partitions(v["partitions"])),
    ),
    "topic-deleted": (
        TopicDeleted,
        lambda r: {"id": r.topic_id.hex},
        lambda v: TopicDeleted(UUID(v["id"])),
    ),
    "configs": (
        ConfigsSet,
        lambda r: {"type": r.resource.type.name, "name": r.resource.name, "configs": dict(r.configs)},
        lambda v: ConfigsSet(Resource(ResourceType[v["type"]], v["name"]), v["configs"]),
    ),
    "producer-ids": (
        ProducerIdsAllocated,
        lambda r: {"next": r.next_id},
        lambda v: ProducerIdsAllocated(v["next"]),
    ),
}
_KIND_OF = {found[0]: (kind.encode(), found[1]) for kind, found in _KINDS.items()}
_READERS = {kind.encode(): found[2] for kind, found in _KINDS.items()}


class ClusterCodec:
    def encode(self, record: ClusterRecord) -> tuple[bytes, bytes]:
        kind, write = _KIND_OF[type(record)]
        return kind, json.dumps(write(record), separators=(",", ":")).encode()

    def decode(self, key: bytes | None, value: bytes | None) -> ClusterRecord:
        read = _READERS.get(key or b"")
        if read is None or value is None:
            raise DamagedData(
                f"the metadata log has a record of unknown kind {key!r}: was it written by a newer version?"
            )
        return read(json.loads(value))
