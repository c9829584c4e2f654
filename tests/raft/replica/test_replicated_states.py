"""States that come with entries: they count from when the entry is committed, on every replica."""

from kompat.common.promise import Promise
from kompat.extensions.states import View
from kompat.log.interceptor import StateWrite
from kompat.protocol.records import NO_NAMES
from tests.simulator.cluster import Cluster, Node, run
from tests.simulator.history import states_of


class Watching:
    """An interceptor that only remembers what is on its way."""

    names = NO_NAMES

    def __init__(self, node: Node) -> None:
        self.view = View(node.partition.store)
        self.reloads = 0
        self.loaded: bytes | None = None  # what the state `a` was, when it was last looked at anew

    def staged(self, writes: list[StateWrite], turn: Promise[None]) -> None:
        self.view.staged(writes, turn)

    def reload(self) -> None:
        self.view.clear()
        self.reloads += 1
        self.loaded = self.view.get(b"a")

    def start_moved(self) -> None:
        pass

    def drop(self) -> None:
        pass


def watch(node: Node) -> Watching:
    interceptor = node.partition.interceptor = Watching(node)  # type: ignore[assignment]
    return interceptor  # type: ignore[return-value]


def test_states_are_seen_at_once_on_the_leader_and_stored_when_committed() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        view = watch(leader).view
        appended = leader.append(b"x", writes=[(b"a", b"1"), (b"b", b"2")])
        second = leader.partition.write_states([(b"b", None)])
        assert view.get(b"a") == b"1"
        assert view.get(b"b") is None
        assert leader.partition.store.state(b"a") is None
        await appended.pending
        await second
        assert view.get(b"a") == b"1"
        await cluster.settled()
        assert [states_of(node) for node in cluster.nodes.values()] == 3 * [{b"a": b"1"}]
        assert view.get(b"a") == b"1"
        assert not view._staged

    run(test)


def test_states_of_entries_that_are_taken_back_never_were() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"x", writes=[(b"a", b"1")])
        old = await cluster.leader()
        interceptor = watch(old)
        cluster.isolate(old.node_id)
        old.append(b"lost", writes=[(b"a", b"lost"), (b"b", b"lost")])
        old.partition.write_states([(b"c", b"lost")])
        assert interceptor.view.get(b"a") == b"lost"
        await cluster.until(lambda: any(node is not old for node in cluster.leaders))
        await cluster.until(lambda: not old.replica.is_leading)
        assert interceptor.view.get(b"a") == b"1"
        new = next(node for node in cluster.leaders if node is not old)
        await cluster.append(b"y", node=new, writes=[(b"d", b"4")])
        cluster.heal()
        await cluster.settled()
        assert [states_of(node) for node in cluster.nodes.values()] == 3 * [{b"a": b"1", b"d": b"4"}]
        assert interceptor.view.get(b"d") == b"4"

    run(test)


def test_states_that_were_not_applied_before_a_restart_are_applied_after_it() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        for number in range(10):
            await cluster.append(b"x", writes=[(b"a", b"%d" % number), (b"%d" % number, b"")])
        for node in list(cluster.nodes):
            cluster.crash(node)
        cluster.start()
        await cluster.settled()
        expected = {b"a": b"9", **{b"%d" % number: b"" for number in range(10)}}
        assert [states_of(node) for node in cluster.nodes.values()] == 3 * [expected]

    run(test)


def test_a_new_leader_looks_at_its_states_anew() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.start()
        await cluster.append(b"x", writes=[(b"a", b"1")])
        old = await cluster.leader()
        interceptors = {node: watch(node) for node in cluster.nodes.values() if node is not old}
        cluster.crash(old.node_id)
        new = await cluster.leader()
        assert interceptors[new].reloads == 1
        assert interceptors[new].view.get(b"a") == b"1"
        assert interceptors[new].loaded == b"1"  # though it may have heard of the commit only now

    for seed in range(20):
        run(test, seed=seed)
