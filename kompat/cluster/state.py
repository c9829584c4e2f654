"""The state of the cluster, built from its records. Values are immutable: views may keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from kompat.cluster import names
from kompat.security.acls import Acls
from kompat.security.quotas import Entity
from kompat.security.scram import Credential, Mechanism
from kompat.security.stand_ins import StandIns
from kompat.types import LogId, NodeId

DRAIN = "kompat.drain"  # a broker's setting


class ResourceType(IntEnum):
    """The types of resources with configs, by the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Resource:
    type: ResourceType
    name: str


class PartitionState(NamedTuple):  # not a dataclass: a topic may have 10,000 of them, which are created at once
    index: int  # type: ignore[assignment]  # instead of the tuples' method
    replicas: tuple[
        NodeId, ...
    ]  # the first is the preferred leader; during a reassignment those to be removed come last
    adding: tuple[NodeId, ...] = ()  # of the replicas: those that are added by the reassignment
    removing: tuple[NodeId, ...] = ()  # of the replicas: those that are removed by the reassignment

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[NodeId, ...]:
        """The replicas after the reassignment."""
        return tuple(node for node in self.replicas if node not in self.removing) if self.removing else self.replicas

    @property
    def leader(self) -> NodeId:
        """The preferred leader. The actual one is not part of the metadata."""
        return self.target[0]

    @property
    def origin(self) -> tuple[NodeId, ...]:
        """The replicas before the reassignment."""
        return tuple(node for node in self.replicas if node not in self.adding) if self.adding else self.replicas


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: UUID
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)  # its own, not the broker's defaults

    @property
    def internal(self) -> bool:
        return names.is_internal(self.name)

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].target)


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: NodeId
    rack: str | None = None
    kafka: Address | None = None  # its address for clients; None: a single broker, which clients have reached already
    peer: Address | None = None  # its address for other brokers
    listeners: Mapping[str, Address] = field(default_factory=dict)  # as `kafka`, by the name of the listener
    directory: str = ""  # the id of its data directory; empty: not known


class ClusterState:
    """Mutable as a whole, changed by the records' `change` only."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.brokers: dict[NodeId, Broker] = {}
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.configs: dict[Resource, Mapping[str, str]] = {}  # of all but topics
        # The replicas that a broker had when its data directory was last replaced: it may have voted or acknowledged for them.
        self.replaced: dict[NodeId, frozenset[LogId]] = {}
        self.next_producer_id = 0
        self.acls = Acls()
        self.quotas: dict[Entity, Mapping[str, float]] = {}
        self.users: dict[str, Mapping[Mechanism, Credential]] = {}
        self.stand_ins = StandIns()  # for users that do not exist
        # Names that `.` and `_` make alike: see names.folded.
        self._folded: dict[str, set[str]] = {}

    def copy(self) -> ClusterState:
        copy = ClusterState()
        copy.cluster_id = self.cluster_id
        copy.brokers = dict(self.brokers)
        copy.topics = dict(self.topics)
        copy.topics_by_id = dict(self.topics_by_id)
        copy.configs = dict(self.configs)
        copy.replaced = dict(self.replaced)
        copy.next_producer_id = self.next_producer_id
        copy.acls = self.acls.copy()
        copy.quotas = dict(self.quotas)
        copy.users = dict(self.users)
        copy.stand_ins = self.stand_ins
        copy._folded = {key: set(found) for key, found in self._folded.items()}
        return copy

    @property
    def leaving(self) -> frozenset[NodeId]:
        """Brokers that are being drained."""
        return frozenset(
            node
            for node in self.brokers
            if self.configs.get(Resource(ResourceType.BROKER, str(node)), {}).get(DRAIN, "").strip().lower() == "true"
        )

    def replace_directory(self, node: NodeId) -> None:
        """A broker has lost its data directory, with the votes and acknowledgements of its replicas."""
        self.replaced[node] = frozenset(
            LogId(topic.id, partition.index)
            for topic in self.topics.values()
            for partition in topic.partitions
            if node in partition.replicas
        )

    def may_found(self, node: NodeId, directory: str, log_id: LogId) -> bool:
        """Whether a broker without data of a replica may start it empty: it never had it, in no earlier directory."""
        known = self.brokers.get(node)
        return known is not None and known.directory in ("", directory) and log_id not in self.replaced.get(node, ())

    def put_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.id] = topic
        key = names.folded(topic.name)
        if key is not None:
            self._folded.setdefault(key, set()).add(topic.name)

    def remove_topic(self, topic: Topic) -> None:
        del self.topics[topic.name], self.topics_by_id[topic.id]
        key = names.folded(topic.name)
        if key is not None:
            alike = self._folded[key]
            alike.discard(topic.name)
            if not alike:
                del self._folded[key]

    def colliding(self, name: str) -> set[str]:
        """Topics whose names differ from this one only by `.` and `_`."""
        key = names.folded(name)
        return self._folded.get(key, set()) - {name} if key is not None else set()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterState) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
