"""A while in the life of a cluster in which everything goes wrong that can."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from kompat.common.promise import Promise
from kompat.errors import KafkaError
from kompat.log.interceptor import StateWrite
from kompat.log.storage.incarnation import Incarnation
from kompat.types import NodeId, Offset
from tests.log.support import LOG_ID
from tests.simulator.cluster import Cluster, Node, run
from tests.simulator.history import History, Violation
from tests.simulator.network import Faults

STEPS = 60
NAMES = [b"a", b"b", b"c"]
SEGMENT_BYTES = 1200  # so that there is more than one


class Chaos:
    def __init__(self, cluster: Cluster, *, elections: bool = False, rot: bool = False, disks: bool = False) -> None:
        """`elections`: brokers come back at once, and messages from before find them. `rot`: bits flip on the disks, of one replica
        of each batch at most. `disks`: they come back emptied, or as they were some time ago."""
        self.disks = disks
        self._last_runs: dict[int, Incarnation] = {}  # of those that are down
        self._lost: dict[int, str] = {}  # the directories of those whose disks were, until they have caught up
        self.cluster = cluster
        self.elections = elections
        self.rots = rot
        self.random = cluster.random
        self.history = History()
        cluster.on_applied = self.history.applied
        self._numbers = 0
        self._down: dict[int, float] = {}  # until when
        self._full: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def go(self) -> None:
        cluster = self.cluster
        cluster.fsync = self.random.choice(["always", "never"])
        cluster.quiet_after = self.random.choice([0, 0, 2])
        if not (self.elections or self.rots or self.disks) and self.random.random() < 0.2:
            cluster.voters = (1,)  # the others join it
        cluster.start()
        actions: dict[Callable[[], None], int] = {
            self.append: 40,
            self.write_states: 6,
            self.crash: 5,
            self.cut: 5,
            self.heal: 6,
            self.disturb: 5,
            self.fill_disk: 3,
            self.change_members: 4,
            self.transfer: 3,
            self.delete_records: 4,
            self.jump: 2,
        }
        if self.elections:
            actions = {self.crash: 10, self.cut: 4, self.heal: 4, self.slow_down: 3, self.append: 5}
        if self.rots:  # members stay: who removes all good replicas of a batch loses it
            del actions[self.change_members]
            actions |= {self.rot: 15, self.read: 15}
        if self.disks:
            actions = {
                self.append: 30,
                self.crash: 6,
                self.save_disk: 6,
                self.lose_disk: 6,
                self.cut: 3,
                self.heal: 6,
                self.write_states: 3,
            }
        for _ in range(STEPS):
            (action,) = self.random.choices(list(actions), list(actions.values()))
            action()
            await self._pass(self.random.choice([0.001, 0.02, 0.1, 0.3]))
        await self._end()

    async def _pass(self, seconds: float) -> None:
        until = self.cluster.loop.time() + seconds
        while self.cluster.loop.time() < until:
            await asyncio.sleep(min(seconds, 0.06))
            self._look()
        now = self.cluster.loop.time()
        for node in [node for node, until in self._down.items() if until <= now]:
            self._rise(node)
        for node in [node for node, until in self._full.items() if until <= now]:
            del self._full[node]
            self.cluster.disks[node].is_full = False

    def _rise(self, node: int) -> None:
        del self._down[node]
        # As the metadata says it: who has had a replica in another directory does not begin one.
        may_found = node in self.cluster.voters and not (node in self._lost and self.cluster.disks[node].is_empty)
        self.cluster.start(node, voters=self.cluster.voters if may_found else ())

    def _look(self) -> None:
        self.cluster.check()
        for node in self.cluster.nodes.values():
            if node.is_copied:
                self.history.copied.add(node.node_id)
            self.history.look(node)
            self.history.look_at_states(node)

    async def _end(self) -> None:
        """Everything is repaired: whatever was acknowledged is there, on all."""
        cluster = self.cluster
        cluster.network.faults = Faults()
        for disk in cluster.disks.values():
            disk.is_full = False
        for node in list(self._down):
            self._rise(node)
        cluster.heal()
        await self._quiet()
        members = (await cluster.leader()).replica.voters
        for node in [node for node in cluster.nodes if node not in members]:
            cluster.crash(node)
        await self._quiet()
        await cluster.append(b"the end")
        await self._quiet()
        for node in cluster.nodes.values() if self.rots else ():
            await node.values()
        self._look()
        self.history.look_at_end(list(cluster.nodes.values()))

    async def _quiet(self) -> None:
        await self.cluster.leader(60)
        for task in [task for task in self._tasks if task.get_name() == "members"]:
            await asyncio.wait_for(task, 300)
        await self.cluster.until(lambda: not self._change_under_way(), 60)
        members = (await self.cluster.leader(60)).replica.voters
        for node in members:
            if node not in self.cluster.nodes:
                self.cluster.start(node, voters=())

        def is_quiet() -> bool:
            nodes = [self.cluster.nodes[node] for node in members]
            ends = {(node.partition.log_end_offset, node.partition.high_watermark) for node in nodes}
            applied = {node.replica.log.applied for node in nodes}
            return len(ends) == len(applied) == 1 and all(node.is_quiet for node in nodes)

        await self.cluster.until(is_quiet, 60)

    def _change_under_way(self) -> bool:
        leaders = self.cluster.leaders
        return not leaders or any(leader.replica.log.members.voters_outgoing for leader in leaders)

    # -- what happens ----------------------------------------------------------------------------------------------
    def _any(self) -> Node | None:
        return self.random.choice(list(self.cluster.nodes.values())) if self.cluster.nodes else None

    def _leader(self) -> Node | None:
        leaders = self.cluster.leaders
        return self.random.choice(leaders) if leaders else None

    def append(self) -> None:
        node = self._leader()
        for _ in range(self.random.randint(1, 5) if node is not None else 0):
            values = [self._value() for _ in range(self.random.randint(1, 3))]
            writes = self._writes() if self.random.random() < 0.3 else []
            with suppress(KafkaError):
                appended = node.append(*values, writes=writes)  # type: ignore[union-attr]
                appended.pending.add_done_callback(partial(self._ended_append, node, appended.base_offset, values))

    def _ended_append(self, node: Node, offset: int, values: list[bytes], pending: Promise[None]) -> None:
        if pending.error is None and not node.peers.is_dead:  # what a dead broker believes reaches nobody
            self.history.acknowledge(offset, *values)

    def _value(self) -> bytes:
        self._numbers += 1
        return b"%d" % self._numbers * self.random.choice([1, 1, 20])

    def _writes(self) -> list[StateWrite]:
        self._numbers += 1
        return [(name, self.random.choice([None, b"%d" % self._numbers])) for name in self.random.sample(NAMES, 2)]

    def write_states(self) -> None:
        node = self._leader()
        if node is not None:
            with suppress(KafkaError):
                node.partition.write_states(self._writes())

    def crash(self) -> None:
        node = self._any()
        if node is not None and len(self._down) < 2:
            self._last_runs[node.node_id] = node.disk.incarnations.mine
            of_machine = self.cluster.fsync == "always" and self.random.random() < 0.7
            self.cluster.crash(node.node_id, of_machine=of_machine)
            self._full.pop(node.node_id, None)
            longest = 0.05 if self.elections else 4
            self._down[node.node_id] = self.cluster.loop.time() + self.random.uniform(longest / 40, longest)

    def save_disk(self) -> None:
        for node in self._down:
            self.cluster.disks[node].save()

    def lose_disk(self) -> None:
        """Of one at a time: what two have lost nobody can bring back."""
        self._lost = {
            node: directory for node, directory in self._lost.items() if not self._has_caught_up(node, directory)
        }
        if self._lost or not self._down:
            return
        node = self.random.choice(sorted(self._down))
        disk = self.cluster.disks[node]
        self._lost[node] = disk.incarnations.mine.directory
        may_put_back = self.random.random() < 0.6 and self._is_known(node)
        self.cluster.disks[node] = disk.put_back() if may_put_back else disk.emptied()

    def _has_caught_up(self, node: int, lost: str) -> bool:
        risen = self.cluster.nodes.get(node)
        return risen is not None and risen.disk.incarnations.mine.directory != lost and not risen.is_in_doubt

    def _is_known(self, node: int) -> bool:
        """Whether the others have met it since its last start: what nobody who is there has seen, nobody can tell it."""
        runs = {disk.incarnations.known(node) for other, disk in self.cluster.disks.items() if other != node}
        return runs == {self._last_runs.get(node)}

    def cut(self) -> None:
        nodes = [NodeId(node) for node in self.cluster.disks]
        self.cluster.network.cut = {
            (a, b) for a in nodes for b in nodes if a != b and self.random.random() < self.random.choice([0.2, 0.5])
        }

    def heal(self) -> None:
        self.cluster.heal()

    def disturb(self) -> None:
        self.cluster.network.faults = Faults(
            lost=self.random.choice([0, 0.05, 0.3]),
            doubled=self.random.choice([0, 0.1]),
            slowest=self.random.choice([0.001, 0.01, 0.3]),
        )

    def slow_down(self) -> None:
        self.cluster.network.faults = Faults(slowest=self.random.choice([0.1, 1.5]))

    def fill_disk(self) -> None:
        node = self._any()
        if node is not None:
            node.disk.is_full = True
            self._full[node.node_id] = self.cluster.loop.time() + self.random.uniform(0.05, 2)

    def change_members(self) -> None:
        node = self._leader()
        if node is None or any(task.get_name() == "members" for task in self._tasks):
            return
        wanted = self.random.sample([1, 2, 3, 4], self.random.choice([1, 2, 3, 3]))
        for new in wanted:
            if new not in self.cluster.nodes and new not in self._down:
                self.cluster.start(new, voters=())
        self._spawn(self._change(wanted), "members")

    async def _change(self, wanted: list[int]) -> None:
        """As a controller does: ask whoever leads, until it is done, or something else matters more."""
        for _ in range(20):
            node = self._leader()
            if node is not None:
                with suppress(KafkaError, TimeoutError):
                    await asyncio.wait_for(node.replica.change_members([NodeId(each) for each in wanted]), 5)
                    return
            await asyncio.sleep(0.2)

    def transfer(self) -> None:
        node = self._leader()
        if node is not None and len(node.replica.voters) > 1:
            to = self.random.choice([voter for voter in node.replica.voters if voter != node.node_id])
            with suppress(KafkaError):
                node.replica.transfer_leadership(to)

    def delete_records(self) -> None:
        node = self._leader()
        if node is not None and node.partition.high_watermark > node.partition.log_start_offset:
            offset = self.random.randint(node.partition.log_start_offset, node.partition.high_watermark)
            self._spawn(self._delete(node, Offset(offset)))

    async def _delete(self, node: Node, offset: Offset) -> None:
        with suppress(KafkaError):
            await node.partition.delete_records(offset)

    def rot(self) -> None:
        """A batch of one replica is not what was written any more; all others have it, and it is good there."""
        node = self._any()
        disks = self.cluster.disks
        if node is None or len(self.cluster.nodes) < len(disks):
            return
        stores = [each.disk.open(LOG_ID) for each in self.cluster.nodes.values()]
        common = set.intersection(*(set(store.bases()) for store in stores))
        least = min(each.partition.high_watermark for each in self.cluster.nodes.values())
        may = [base for base in sorted(common) if base < least and not any(s.is_damaged(base) for s in stores)]
        if may:
            base = self.random.choice(may)
            length = len(node.disk.open(LOG_ID).content(base))
            node.disk.open(LOG_ID).damage(base, self.random.randrange(16, length))
            node.partition.log.tail.clear(node.partition.log_end_offset)
            self.history.rotten += 1

    def read(self) -> None:
        node = self._any()
        if node is not None:
            self._spawn(self._read(node))

    async def _read(self, node: Node) -> None:
        with suppress(KafkaError):
            await node.values()

    def jump(self) -> None:
        node = self._any()
        if node is not None:
            node.clock.ahead_ms += self.random.choice([-60_000, 60_000])

    def _spawn(self, work, name: str = "") -> None:
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.cluster.loop.failures.append(task.exception())  # type: ignore[arg-type]


def simulate(seed: int, *, elections: bool = False, rot: bool = False, disks: bool = False) -> History:
    """Live through it. Raises Violation, with the seed that shows it again."""

    async def test(cluster: Cluster) -> History:
        chaos = Chaos(cluster, elections=elections, rot=rot, disks=disks)
        await chaos.go()
        return chaos.history

    try:
        return run(test, seed, segment_bytes=SEGMENT_BYTES)
    except Exception as error:
        raise Violation(f"seed {seed}: {type(error).__name__}: {error}") from error
