"""The records of the metadata log: the key names the type, the value is JSON.

Unknown types stop the broker: a log written by a newer version must not be misread. Unknown fields are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from uuid import UUID

from kompat.cluster import acls, quotas, scram_users
from kompat.cluster.state import Address, Broker, ClusterState, PartitionState, Resource, ResourceType, Topic
from kompat.errors import UnknownRecord
from kompat.types import LogId, NodeId


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
            # The broker may register again with another directory, which could not be recognised.
            state.replace_directory(self.node_id)


@dataclass(frozen=True, slots=True)
class DirectoryReplaced:
    """In snapshots, instead of registrations: the replicas that a broker had in a data directory that was lost."""

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
    """New replicas of a partition: at the start or the end of a reassignment."""

    topic_id: UUID
    index: int
    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()

    def change(self, state: ClusterState) -> None:
        topic = state.topics_by_id[self.topic_id]
        moved = PartitionState(self.index, self.replicas, self.adding, self.removing)
        before, after = topic.partitions[: self.index], topic.partitions[self.index + 1 :]
        state.put_topic(replace(topic, partitions=(*before, moved, *after)))


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    topic_id: UUID

    def change(self, state: ClusterState) -> None:
        state.remove_topic(state.topics_by_id[self.topic_id])


@dataclass(frozen=True, slots=True)
class ConfigsSet:
    """All configs of a resource; they replace the earlier ones."""

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
    next_id: int  # all below are allocated

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


def _write_partitions(partitions: Sequence[PartitionState]) -> dict[str, Any]:
    """Most partitions have the same few sets of replicas: each is written once, and shared by readers."""
    sets: dict[tuple[NodeId, ...], int] = {}
    written: dict[str, Any] = {
        "first": partitions[0].index,
        "partitions": [sets.setdefault(p.replicas, len(sets)) for p in partitions],
        "sets": list(sets),
    }
    moving = [(p.index, p.adding, p.removing) for p in partitions if p.adding or p.removing]
    return written | ({"moving": moving} if moving else {})


def _read_partitions(value: Mapping[str, Any]) -> tuple[PartitionState, ...]:
    sets, first = [tuple(nodes) for nodes in value["sets"]], value["first"]
    found = list(map(PartitionState, count(first), map(sets.__getitem__, value["partitions"])))
    for index, adding, removing in value.get("moving", ()):
        found[index - first] = PartitionState(index, found[index - first].replicas, tuple(adding), tuple(removing))
    return tuple(found)


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
    written = {"name": topic.name, "id": topic.id.hex, **_write_partitions(topic.partitions)}
    return written | {"configs": dict(topic.configs)} if topic.configs else written


def _read_topic(value: Mapping[str, Any]) -> TopicCreated:
    return TopicCreated(Topic(value["name"], UUID(value["id"]), _read_partitions(value), value.get("configs", {})))


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
        lambda r: {"topic": r.topic_id.hex, **_write_partitions(r.partitions)},
        lambda v: PartitionsCreated(UUID(v["topic"]), _read_partitions(v)),
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
