"""A broker among others that are not there: its links and replicas are stand-ins that remember what was asked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from kompat.cluster.leaders import Announcement
from kompat.cluster.leadership import Leadership
from kompat.cluster.messages import AnnounceLeaders, DescribeLeaders, FinishReassignment
from kompat.cluster.network import Network
from kompat.cluster.ports import Progress
from kompat.cluster.state import Address, PartitionState
from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition
from kompat.rpc import codec
from kompat.rpc.router import Directory, Router
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
        self.calls: list[tuple[NodeId, AnnounceLeaders]] = []
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
        envelope: codec.Envelope = codec.decode(codec.Envelope, b"".join(body))
        if envelope.request == DescribeLeaders.__name__:
            wanted: DescribeLeaders = codec.decode(DescribeLeaders, envelope.body)
            return memoryview(codec.encode(codec.Answer(codec.raw(self.known_to_others.get(wanted.node)))))
        if self.errors:
            raise self.errors.pop(0)
        assert envelope.request == AnnounceLeaders.__name__
        self.calls.append((to, codec.decode(AnnounceLeaders, envelope.body)))
        return memoryview(codec.encode(codec.Answer()))

    def announcements(self, node: NodeId) -> list[Announcement]:
        return [request.announcement for to, request in self.calls if to == node]


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
        self.asked: list[FinishReassignment] = []
        self._wanted = wanted

    async def call(self, _: object, request: FinishReassignment) -> None:
        self.asked.append(request)
        known = self._wanted[request.log_id]
        if set(known.target) == set(request.replicas):
            self._wanted[request.log_id] = state(*known.target)


def state(*replicas: int, adding: Sequence[int] = (), removing: Sequence[int] = ()) -> PartitionState:
    nodes = tuple(NodeId(n) for n in replicas)
    return PartitionState(0, nodes, tuple(map(NodeId, adding)), tuple(map(NodeId, removing)))


def partition() -> Partition:
    node = Node(Disk())
    return node.logs.open(LOG, "t", 0, TopicConfig())


def network(
    links: Links,
    *others: NodeId,
    lost_after: float = 0.02,
    voters: Callable[[], Sequence[NodeId]] = lambda: (),
    rpc: Router | None = None,
) -> Network:
    seeds = {node: Address("there", 100 + node) for node in others}
    return Network(ME, links, rpc or router(links), seeds, voters, lost_after, lost_after)


def router(links: Links) -> Router:
    directory: Any = SimpleNamespace(metadata_read=0)
    return Router(ME, cast("Directory", directory), links)


def leading(net: Network, replica: Copy) -> tuple[Leadership, Partition]:
    """What this broker leads."""
    leadership, log = Leadership(net), partition()
    leadership.take(log, replica)
    log.leader_epoch = LeaderEpoch(1)
    leadership.leading(log, LeaderEpoch(1))
    return leadership, log
