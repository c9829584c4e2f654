"""What happens to the cluster, as it stands in the metadata log: the key names the kind, the value is JSON.

Unknown kinds stop the broker: a log written by a newer version must not be misread. Unknown fields are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from kompat.cluster import acls, quotas, scram_users
from kompat.cluster.state import Address, Broker, ClusterState, PartitionState, Resource, ResourceType, Topic
from kompat.errors import UnknownRecord
from kompat.types import LeaderEpoch, LogId, NodeId


@dataclass(frozen=True, slots=True)
class ClusterCreated:
    cluster_id: str

    def change(self, state: ClusterState) -> None:
        state.cluster_id = self.cluster_id


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    broker: Broker

    def change(self, state: ClusterState) -> None:
        known = state.brokers.get(self.broker.node_id)
        if known is not None and known.directory and known.directory != self.broker.directory:
            state.replace_directory(self.broker.node_id)
        state.brokers[self.broker.node_id] = self.broker


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    node_id: NodeId

    def change(self, state: ClusterState) -> None:
        if state.brokers.pop(self.node_id, None) is not None:
            state.replace_directory(self.node_id)  # it may come back with another one, and nobody could tell


@dataclass(frozen=True, slots=True)
class DirectoryReplaced:
    """In snapshots, for what registrations say in a log: the replicas that a broker had in a data directory that is gone."""

    node_id: NodeId
    logs: frozenset[LogId]

    def change(self, state: ClusterState) -> None:
        state.replaced[self.node_id] = self.logs


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
class PartitionAssigned:
    """Other replicas for a partition: on its way to them, or there."""

    topic_id: UUID
    index: int
    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()

    def change(self, state: ClusterState) -> None:
        topic = state.topics_by_id[self.topic_id]
        moved = replace(
            topic.partitions[self.index], replicas=self.replicas, adding=self.adding, removing=self.removing
        )
        moved = replace(moved, leader=moved.target[0], isr=moved.target)
        before, after = topic.partitions[: self.index], topic.partitions[self.index + 1 :]
        state.put_topic(replace(topic, partitions=(*before, moved, *after)))


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
    | BrokerUnregistered
    | DirectoryReplaced
    | TopicCreated
    | PartitionsCreated
    | PartitionAssigned
    | TopicDeleted
    | ConfigsSet
    | ProducerIdsAllocated
    | scram_users.UserRecord
    | acls.AclRecord
    | quotas.QuotasSet
)


def _write_partitions(partitions: tuple[PartitionState, ...]) -> list[list[Any]]:
    return [
        [p.index, p.leader, p.leader_epoch, p.replicas, p.isr, *((p.adding, p.removing) if p.is_moving else ())]
        for p in partitions
    ]


def _read_partitions(rows: list[list[Any]]) -> tuple[PartitionState, ...]:
    # Most partitions have the same few replica sets, so equal ones share one tuple.
    shared: dict[tuple[NodeId, ...], tuple[NodeId, ...]] = {}

    def nodes(found: list[int]) -> tuple[NodeId, ...]:
        key = tuple(NodeId(node) for node in found)
        return shared.setdefault(key, key)

    return tuple(
        PartitionState(index, NodeId(leader), LeaderEpoch(epoch), nodes(replicas), nodes(isr), *map(nodes, move))
        for index, leader, epoch, replicas, isr, *move in rows
    )


def _write_broker(record: BrokerRegistered) -> dict[str, Any]:
    broker = record.broker
    written: dict[str, Any] = {"id": broker.node_id, "rack": broker.rack}
    for name, address in (("kafka", broker.kafka), ("peer", broker.peer)):
        if address is not None:
            written[name] = [address.host, address.port]
    if broker.listeners:
        written["listeners"] = {name: [at.host, at.port] for name, at in broker.listeners.items()}
    return written | ({"directory": broker.directory} if broker.directory else {})


def _read_broker(value: Mapping[str, Any]) -> BrokerRegistered:
    kafka, peer = (Address(*value[name]) if name in value else None for name in ("kafka", "peer"))
    listeners = {name: Address(*at) for name, at in value.get("listeners", {}).items()}
    directory = value.get("directory", "")
    return BrokerRegistered(Broker(NodeId(value["id"]), value["rack"], kafka, peer, listeners, directory))


def _write_replaced(record: DirectoryReplaced) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for log in sorted(record.logs, key=lambda each: each.key):
        topics.setdefault(log.topic_id.hex, []).append(log.partition)
    return {"id": record.node_id, "topics": topics}


def _read_replaced(value: Mapping[str, Any]) -> DirectoryReplaced:
    logs = (LogId(UUID(topic), index) for topic, found in value["topics"].items() for index in found)
    return DirectoryReplaced(NodeId(value["id"]), frozenset(logs))


def _write_assigned(record: PartitionAssigned) -> dict[str, Any]:
    written: dict[str, Any] = {"topic": record.topic_id.hex, "index": record.index, "replicas": record.replicas}
    return (
        written
        | ({"adding": record.adding} if record.adding else {})
        | ({"removing": record.removing} if record.removing else {})
    )


def _read_assigned(value: Mapping[str, Any]) -> PartitionAssigned:
    replicas, adding, removing = (tuple(value.get(name, ())) for name in ("replicas", "adding", "removing"))
    return PartitionAssigned(UUID(value["topic"]), value["index"], replicas, adding, removing)


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
    "broker": (BrokerRegistered, _write_broker, _read_broker),
    "broker-gone": (
        BrokerUnregistered,
        lambda r: {"id": r.node_id},
        lambda v: BrokerUnregistered(NodeId(v["id"])),
    ),
    "directory-replaced": (DirectoryReplaced, _write_replaced, _read_replaced),
    "topic": (TopicCreated, _write_topic, _read_topic),
    "partitions": (
        PartitionsCreated,
        lambda r: {"topic": r.topic_id.hex, "partitions": _write_partitions(r.partitions)},
        lambda v: PartitionsCreated(UUID(v["topic"]), _read_partitions(v["partitions"])),
    ),
    "assigned": (PartitionAssigned, _write_assigned, _read_assigned),
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
    **scram_users.KINDS,
    **acls.KINDS,
    **quotas.KINDS,
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
            raise UnknownRecord(
                f"the metadata log has a record of unknown kind {key!r}: was it written by a newer version?"
            )
        return read(json.loads(value))
