"""A broker among others that are not there: its links and replicas are stand-ins that remember what was asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kompat.cluster import leaders
from kompat.cluster.calls import Call
from kompat.cluster.leaders import Announcement, Leaders
from kompat.cluster.leadership import Leadership
from kompat.cluster.network import Network
from kompat.cluster.replicas import Progress
from kompat.cluster.state import Address, PartitionState
from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition
from kompat.types import Buffer, LeaderEpoch, LogId, NodeId
from tests.coordination.support import Disk, Node

ME, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
TOPIC = UUID(int=70)
LOG = LogId(TOPIC, 0)


class Links:
    """Peers that answer nothing, and are up as a test says."""

    def __init__(self) -> None:
        self.up: set[NodeId] = set()
        self.gone: set[NodeId] = set()
        self.dialled: dict[NodeId, tuple[str, int]] = {}
        self.calls: list[tuple[NodeId, int, bytes]] = []
        self.errors: list[Exception] = []
        self.known_to_others: dict[NodeId, Announcement] = {}  # brokers that only others reach, and what they lead

    def connect(self, node: NodeId, host: str, port: int) -> None:
        self.dialled[node] = (host, port)

    def forget(self, node: NodeId) -> None:
        self.dialled.pop(node, None)

    def is_up(self, node: NodeId) -> bool:
        return node in self.up

    def is_gone(self, node: NodeId) -> bool:
        return node in self.gone

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109
        if kind == Call.REACH:
            told = self.known_to_others.get(NodeId(int.from_bytes(b"".join(body), "big")))
            return memoryview(leaders.encode(told) if told is not None else b"")
        if self.errors:
            raise self.errors.pop(0)
        self.calls.append((to, kind, b"".join(body)))
        return memoryview(b"")

    def told(self, node: NodeId) -> list[Announcement]:
        return [leaders.decode(ME, body) for to, kind, body in self.calls if (to, kind) == (node, Call.LEADERS)]


class Copy:
    """A replica whose members a test changes."""

    def __init__(self, *voters: NodeId) -> None:
        self.voters: list[NodeId] = list(voters)
        self.learners: list[NodeId] = []
        self.is_leading = True
        self.leader: NodeId | None = ME
        self.epoch = LeaderEpoch(1)
        self.synced: list[NodeId] = list(voters)
        self.given_to: list[NodeId] = []
        self.campaigns = 0
        self.refusals: list[KafkaError] = []

    def in_sync(self) -> Sequence[NodeId]:
        return self.synced

    def progress(self) -> Mapping[NodeId, Progress]:
        return {}

    async def change_members(self, voters: Sequence[NodeId], learners: Sequence[NodeId] = ()) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.voters, self.learners = list(voters), list(learners)
        self.synced = list(voters)

    def campaign(self) -> None:
        self.campaigns += 1

    def transfer_leadership(self, to: NodeId) -> None:
        if to in self.given_to:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "it is on its way")
        self.given_to.append(to)


class Controlled:
    """The controller: it writes arrivals into the metadata."""

    def __init__(self, wanted: dict[LogId, PartitionState]) -> None:
        self.asked: list[tuple[str, Any]] = []
        self._wanted = wanted

    async def ask(self, command: str, arguments: Any = None) -> Any:
        self.asked.append((command, arguments))
        topic, index, members = arguments
        log_id = LogId(UUID(topic), index)
        known = self._wanted[log_id]
        if set(known.target) == set(members):
            self._wanted[log_id] = state(*known.target)


def state(*replicas: int, adding: Sequence[int] = (), removing: Sequence[int] = ()) -> PartitionState:
    nodes = tuple(NodeId(n) for n in replicas)
    return PartitionState(
        0, nodes[0], LeaderEpoch(0), nodes, nodes, tuple(map(NodeId, adding)), tuple(map(NodeId, removing))
    )


def partition() -> Partition:
    node = Node(Disk())
    return node.logs.open(LOG, "t", 0, TopicConfig())


def network(links: Links, *others: NodeId, lost_after: float = 0.02) -> Network:
    seeds = {node: Address("there", 100 + node) for node in others}
    return Network(ME, links, Leaders(), seeds, lost_after, lost_after)


def leading(net: Network, replica: Copy) -> tuple[Leadership, Partition]:
    """What this broker leads."""
    leadership, log = Leadership(net), partition()
    leadership.take(log, replica)
    log.leader_epoch = LeaderEpoch(1)
    leadership.leading(log, LeaderEpoch(1))
    return leadership, log
