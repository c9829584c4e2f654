"""What only a broker itself knows, for the HTTP ports of all brokers: requests of `kompat.rpc`, and their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from kompat.admin.sampling import Sample, Totals
from kompat.rpc.messages import BrokerRequest

if TYPE_CHECKING:
    from kompat.admin.sampling import Sampler
    from kompat.handlers.support.services import Services
    from kompat.log.partition import Partition

SECONDS = 5.0  # for a response


class BrokerDescription(Struct, frozen=True):
    http: str = ""  # host:port of its HTTP port; empty if it has none
    version: str | None = None
    in_doubt: int | None = None  # replicas that do not vote or count as in sync until they have caught up


class RaftPeer(Struct, rename="camel", kw_only=True):
    id: int
    match_index: int
    lag: int
    state: str
    is_voter: bool


class RaftGroup(Struct, rename="camel", kw_only=True):
    topic: str
    partition: int
    term: int
    role: str
    leader: int | None
    commit_index: int
    applied_index: int
    last_index: int
    peers: list[RaftPeer]


class BrokerStatistics(Struct, frozen=True):
    totals: Totals
    samples: list[Sample]


class DescribeBroker(BrokerRequest[BrokerDescription], frozen=True):
    answered_within: ClassVar[float] = SECONDS


class DescribeRaftGroups(BrokerRequest[list[RaftGroup]], frozen=True):
    """Describe the Raft groups of those partitions that have a replica on the broker."""

    answered_within: ClassVar[float] = SECONDS
    partitions: list[tuple[str, int]]


class ReadStatistics(BrokerRequest[BrokerStatistics], frozen=True):
    answered_within: ClassVar[float] = SECONDS
    since: int


class BrokerInfo:
    def __init__(self, services: Services, http: str, sampler: Sampler) -> None:
        """`http`: host:port of this broker's HTTP port; empty if it has none."""
        self._services = services
        self._http = http
        self._sampler = sampler
        rpc = services.cluster.rpc
        rpc.serve(DescribeBroker, self._describe)
        rpc.serve(DescribeRaftGroups, self._describe_raft)
        rpc.serve(ReadStatistics, self._read_statistics)

    async def _describe(self, _: DescribeBroker) -> BrokerDescription:
        in_doubt = self._services.cluster.local.replication.in_doubt
        return BrokerDescription(self._http, self._services.version, in_doubt)

    async def _read_statistics(self, request: ReadStatistics) -> BrokerStatistics:
        return BrokerStatistics(self._sampler.totals(), [s for s in self._sampler.samples if s.at > request.since])

    async def _describe_raft(self, request: DescribeRaftGroups) -> list[RaftGroup]:
        found = ((topic, index, self._partition(topic, index)) for topic, index in request.partitions)
        return [self._described(topic, index, partition) for topic, index, partition in found if partition is not None]

    def _partition(self, topic: str, index: int) -> Partition | None:
        cluster = self._services.cluster
        if topic == cluster.log.topic and index == 0:
            return cluster.log
        return self._services.logs.find(topic, index)

    def _described(self, topic: str, index: int, partition: Partition) -> RaftGroup:
        replica = partition.replica
        if replica is not None:
            from kompat.raft.replica.replica import Replica  # a broker without others does without it
        if replica is None or not isinstance(replica, Replica):
            me, last = self._services.node_id, partition.state.next_index - 1
            return RaftGroup(
                topic=topic,
                partition=index,
                term=partition.leader_epoch,
                role="leader",
                leader=me,
                commit_index=last,
                applied_index=last,
                last_index=last,
                peers=[RaftPeer(id=me, match_index=last, lag=0, state="leader", is_voter=True)],
            )
        status = replica.group.status()
        voters = set(replica.voters)
        peers = [
            RaftPeer(
                id=peer.id,
                match_index=status.last if peer.id == status.id else peer.matched,
                lag=0 if peer.id == status.id else max(0, status.last - peer.matched),
                state="leader" if peer.id == status.id else peer.state,
                is_voter=peer.id in voters,
            )
            for peer in status.peers
        ]
        return RaftGroup(
            topic=topic,
            partition=index,
            term=status.term,
            role=replica.role.name.lower(),
            leader=status.leader or None,
            commit_index=status.commit,
            applied_index=status.applied,
            last_index=status.last,
            peers=peers,
        )
