"""Brokers with one replicated partition."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from kompat.config.topic import TopicConfig
from kompat.errors import KafkaError
from kompat.log.cache import TailCache
from kompat.log.commit import GroupCommit
from kompat.log.interceptor import StateWrite
from kompat.log.partition import Appended, Isolation, Partition
from kompat.protocol.records import Record, build_batch, iterate, split_batches
from kompat.raft.engine import Settings
from kompat.raft.ports import ReplicationSettings
from kompat.raft.replica.copies import COPY
from kompat.raft.replica.log import Unapplied
from kompat.raft.replica.ready_loop import ReadyLoop
from kompat.raft.replica.replica import Replica
from kompat.raft.replication import Replication
from kompat.types import NodeId, Offset
from tests.log.support import LOG_ID
from tests.simulator.disk import SimDisk
from tests.simulator.loop import SimClock, SimLoop
from tests.simulator.network import Network, SimPeers

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - it is what a test looks for
    """A broker has stopped itself."""


class WatchedLoop(ReadyLoop):
    """Shows what is applied."""

    def __init__(self, node: "Node") -> None:
        super().__init__(node.replica, node.replication)
        self._node = node

    def apply_one(self, entry: Unapplied) -> None:
        if not self._node.peers.is_dead:  # what a dead broker believes reaches nobody
            self._node.on_applied(self._node, entry)
        super().apply_one(entry)


class Node:
    """One broker, from its start to its end."""

    def __init__(
        self, node_id: int, loop: SimLoop, network: Network, disk: SimDisk, voters: Sequence[int], cluster: "Cluster"
    ) -> None:
        self.node_id = NodeId(node_id)
        self.disk = disk
        self.clock = SimClock(loop)
        self.peers = network.peers[self.node_id] = SimPeers(self.node_id, network)
        self.commit = GroupCommit(disk, loop, fsync=cluster.fsync, on_failed=self._reload)
        settings = ReplicationSettings(
            seed=cluster.random.getrandbits(32), quiet_after=cluster.quiet_after, engine=cluster.engine, meet_ms=0
        )
        self.replication = Replication(self.node_id, self.peers, self.commit, self.clock, settings, self._stopped)
        self.roles: list[tuple[Any, ...]] = []
        self.partition = Partition(
            LOG_ID,
            "topic",
            0,
            store=disk.open(LOG_ID),
            commit=self.commit,
            config=cluster.config,
            clock=self.clock,
            cache=TailCache(cluster.cache_bytes),
        )
        self.replica: Replica = self.replication.attach(self.partition, [NodeId(voter) for voter in voters])
        self.replica.loop = WatchedLoop(self)
        self.on_applied = cluster.on_applied
        self._receive, self.peers.on_stream[COPY] = self.peers.on_stream[COPY], self._copy_comes
        self.is_copied = False  # then its states may run ahead of what is applied
        self.replication.start(self)

    async def _copy_comes(self, sender: NodeId, head: bytes, chunks: AsyncIterator[memoryview]) -> bytes:
        self.is_copied = True
        return await self._receive(sender, head, chunks)

    def _reload(self) -> None:
        if self.partition.is_staged:
            self.partition.reload()

    def _stopped(self, reason: str) -> None:
        raise Stopped(f"broker {self.node_id}: {reason}")

    def leading(self, partition: Partition, epoch: int) -> None:
        self.roles.append(("leading", epoch))

    def following(self, partition: Partition, leader: NodeId | None, epoch: int) -> None:
        self.roles.append(("following", leader, epoch))

    def members_changed(self, partition: Partition) -> None:
        self.roles.append(("members", tuple(self.replica.voters)))

    @property
    def is_quiet(self) -> bool:
        """Whether what is stored is what its partition believes: nothing is on its way to the disk."""
        return not self.partition.is_staged and not self.disk.has_staged()

    @property
    def is_in_doubt(self) -> bool:
        return self.replica.recovery.is_open or not self.replica.log.is_whole

    def append(self, *values: bytes, writes: Sequence[StateWrite] = (), **options: Any) -> Appended:
        records = [Record(i, self.clock.now(), b"key", value) for i, value in enumerate(values)]
        return self.partition.append(memoryview(build_batch(records, **options)), writes=writes)

    async def values(self, offset: int = 0) -> list[bytes | None]:
        found: list[bytes | None] = []
        at = Offset(max(offset, self.partition.log_start_offset))
        while at < self.partition.high_watermark:
            result = self.partition.read(at, 1 << 20, Isolation.READ_UNCOMMITTED)
            if result is None:
                result = await self.partition.read_stored(at, 1 << 20, Isolation.READ_UNCOMMITTED)
            batches = [batch for buffer in result.buffers for batch in split_batches(memoryview(buffer))]
            found += [record.value for batch in batches for record in iterate(batch)]
            at = result.next_offset
        return found

    def kill(self) -> None:
        self.peers.is_dead = True
        if self.replication._timer is not None:
            self.replication._timer.cancel()
        for task in self.replication._tasks:
            task.cancel()


class Cluster:
    """Use it inside of `run`."""

    def __init__(self, loop: SimLoop, random: Random, voters: Sequence[int] = (1, 2, 3), **config: Any) -> None:
        self.loop = loop
        self.random = random
        self.network = Network(loop, random)
        self.voters = voters
        self.fsync = "never"
        self.quiet_after = 0
        self.cache_bytes = 1 << 16
        self.engine = Settings()
        self.config = TopicConfig(**config)
        self.on_applied: Callable[[Node, Unapplied], None] = lambda *_: None
        self.nodes: dict[int, Node] = {}
        self.disks: dict[int, SimDisk] = {}

    def start(self, *nodes: int, voters: Sequence[int] | None = None) -> None:
        for node in nodes or self.voters:
            disk = self.disks.setdefault(node, SimDisk())
            given = self.voters if voters is None else voters
            self.nodes[node] = Node(node, self.loop, self.network, disk, given, self)
        self._meet(nodes or self.voters)

    def _meet(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            for other in self.nodes.values():
                other.replication.peer_up(NodeId(node))

    def crash(self, node: int, *, of_machine: bool = False) -> None:
        gone = self.nodes.pop(node)
        gone.kill()
        del self.network.peers[NodeId(node)]
        self.disks[node] = gone.disk.crash(self.random, of_machine=of_machine)
        for other in self.nodes.values():
            other.replication.peer_lost(NodeId(node))

    def restart(self, node: int, **how: Any) -> None:
        if node in self.nodes:
            self.crash(node, **how)
        self.start(node)

    def isolate(self, node: int) -> None:
        for other in self.nodes:
            self.network.cut |= {(NodeId(node), NodeId(other)), (NodeId(other), NodeId(node))}

    def heal(self) -> None:
        self.network.cut.clear()
        self._meet(list(self.nodes))

    @property
    def leaders(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.replica.is_leading]

    async def leader(self, seconds: float = 20) -> Node:
        """The one that leads, when there is one."""
        await self.until(lambda: bool(self.leaders), seconds)
        return max(self.leaders, key=lambda node: node.replica.epoch)

    async def until(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        deadline = self.loop.time() + seconds
        while not condition():
            assert self.loop.time() < deadline, f"not within {seconds} s; {[n.replica for n in self.nodes.values()]}"
            await asyncio.sleep(0.01)
            self.check()

    def check(self) -> None:
        if self.loop.failures:
            raise self.loop.failures[0]

    async def append(self, *values: bytes, node: Node | None = None, **options: Any) -> Appended:
        """Committed; by whoever leads, however often it has to be tried."""
        while True:
            leader = node or await self.leader()
            try:
                appended = leader.append(*values, **options)
                await appended.pending
            except KafkaError:
                if node is not None:
                    raise
                await asyncio.sleep(0.05)
            else:
                return appended

    async def settled(self, seconds: float = 20) -> None:
        """Until all brokers have the same committed log."""

        def is_settled() -> bool:
            ends = {node.partition.log_end_offset for node in self.nodes.values()}
            marks = {node.partition.high_watermark for node in self.nodes.values()}
            applied = {node.replica.log.applied for node in self.nodes.values()}
            return len(self.leaders) == 1 and len(ends | marks) == 1 and len(applied) == 1

        await self.until(is_settled, seconds)


def run(test: Callable[[Cluster], Coroutine[Any, Any, T]], seed: int = 0, **options: Any) -> T:
    """Run a test with a cluster of its own."""
    random = Random(seed)
    loop = SimLoop(random)

    async def inside() -> T:
        cluster = Cluster(loop, random, **options)
        try:
            result = await test(cluster)
            cluster.check()
            return result
        finally:
            for node in cluster.nodes.values():
                node.kill()
            await asyncio.sleep(0.1)

    try:
        return loop.run_until_complete(inside())
    finally:
        loop.close()
