"""Random lives of classic groups: dynamic and static members, time-outs, restarts, and now and then another protocol."""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.config import GroupSettings, ModernGroupSettings
from kompat.groups.consumer_protocol import encode_assignment, parse_assignment
from kompat.groups.machine.classic import ClassicGroup, ClassicState
from kompat.groups.machine.messages import JoinReply, LeavingMember, SyncReply, Token
from tests.groups.harness import Groups, compacted, replicated, settled, table, through_bytes, topic_id_of

pytestmark = pytest.mark.slow

PARTITIONS = 6
SESSION, REBALANCE = 10_000, 20_000
ORDERS = topic_id_of("orders")


@dataclass
class Client:
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    owned: frozenset[int] = frozenset()
    waits_for: Token | None = None

    def reset(self) -> None:
        self.member_id, self.generation, self.owned = "", -1, frozenset()


@dataclass
class Generation:
    leader: str = ""
    assignments: dict[str, frozenset[int]] = field(default_factory=dict)


class RandomClassicGroup(RuleBasedStateMachine):
    @initialize(delay=st.sampled_from([0, 3_000]), max_size=st.sampled_from([3, 100]))
    def begin(self, delay: int, max_size: int) -> None:
        consumer = ModernGroupSettings(assignment_interval_ms=0, session_timeout_ms=SESSION)
        broker = GroupSettings(consumer=consumer, initial_rebalance_delay_ms=delay, max_size=max_size)
        self.groups = Groups(broker, table(orders=PARTITIONS))
        self.follower = self.groups.replayed([])
        self.followed = 0
        self.clients: list[Client] = []
        self.generations: dict[int, Generation] = {}
        self.modern: dict[str, int] = {}  # member of the consumer protocol → its epoch
        self.tokens: set[Token] = set()
        self.serial = 0

    # --- members

    @precondition(lambda self: len(self.clients) < 5)
    @rule(is_static=st.booleans())
    def enter(self, is_static: bool) -> None:
        self.serial += 1
        self.clients.append(Client(f"i{self.serial}" if is_static else None))
        self.join(self.clients[-1])

    def join(self, client: Client) -> None:
        client.owned = frozenset()  # eager
        client.waits_for = self.groups.join(
            member_id=client.member_id, instance_id=client.instance_id, session_ms=SESSION, rebalance_ms=REBALANCE
        )
        self.tokens.add(client.waits_for)
        self.hear(client)

    def hear(self, client: Client) -> None:
        """Take notice of an answer, if it has come."""
        reply = self.groups.replies.get(client.waits_for)
        if reply is None:
            return
        client.waits_for = None
        if isinstance(reply, JoinReply):
            self.hear_of_join(client, reply)
        else:
            self.hear_of_sync(client, reply)

    def hear_of_join(self, client: Client, reply: JoinReply) -> None:
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
            self.join(client)
        elif reply.error is not ErrorCode.NONE:
            client.reset()
        else:
            client.member_id, client.generation = reply.member_id, reply.generation_id
            self.sync(client, reply)

    def sync(self, client: Client, reply: JoinReply) -> None:
        assignments = {}
        if reply.leader == client.member_id and not reply.skip_assignment:
            generation = self.generations[reply.generation_id] = Generation(client.member_id)
            names = [each.member_id for each in reply.members]
            for number, name in enumerate(names):
                share = frozenset(range(number, PARTITIONS, len(names)))
                generation.assignments[name] = share
                assignments[name] = encode_assignment({"orders": share}, 1)
        client.waits_for = self.groups.sync(
            client.member_id, client.generation, assignments, instance_id=client.instance_id
        )
        self.tokens.add(client.waits_for)
        self.hear(client)

    def hear_of_sync(self, client: Client, reply: SyncReply) -> None:
        if reply.error is ErrorCode.NONE:
            named = parse_assignment(reply.assignment).partitions if reply.assignment else {}
            client.owned = frozenset(named.get("orders", ()))
        elif reply.error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.reset()
        else:
            client.generation = -1

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9))
    def goes_on(self, which: int) -> None:
        client = self.clients[which % len(self.clients)]
        if client.waits_for is not None:
            self.hear(client)
        elif client.generation < 0:
            self.join(client)
        else:
            error = self.groups.heartbeat(client.member_id, client.generation, instance_id=client.instance_id)
            if error is ErrorCode.REBALANCE_IN_PROGRESS:
                self.join(client)
            elif error is not ErrorCode.NONE:
                client.reset()

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9))
    def rejoins(self, which: int) -> None:
        client = self.clients[which % len(self.clients)]
        if client.waits_for is None:
            self.join(client)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), is_polite=st.booleans())
    def restarts(self, which: int, is_polite: bool) -> None:
        """A client goes; a static one comes back."""
        client = self.clients.pop(which % len(self.clients))
        if is_polite and client.instance_id is None and client.member_id:
            self.groups.leave(client.member_id)
        elif client.instance_id is not None:
            if is_polite:
                self.groups.leave(LeavingMember(member_id="", group_instance_id=client.instance_id))
            client.reset()
            client.waits_for = None
            self.clients.append(client)

    # --- the other protocol

    @precondition(lambda self: len(self.modern) < 2 and self.clients)
    @rule()
    def a_consumer_of_the_new_protocol_comes(self) -> None:
        self.serial += 1
        name = f"modern{self.serial}"
        try:
            self.modern[name] = self.groups.enter(name).member_epoch
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise

    @precondition(lambda self: self.modern)
    @rule(which=st.integers(0, 9), goes=st.booleans())
    def a_consumer_of_the_new_protocol_is_heard_of(self, which: int, goes: bool) -> None:
        name = sorted(self.modern)[which % len(self.modern)]
        epoch = self.modern.pop(name)
        try:
            reply = self.groups.beat(name, -1 if goes else epoch, topic_partitions={})
        except KafkaError:
            return
        if not goes:
            self.modern[name] = reply.member_epoch

    # --- the world

    @rule(ms=st.sampled_from([100, 3_000, 9_000]))
    def time_passes(self, ms: int) -> None:
        self.groups.advance(ms)

    @rule()
    def broker_restarts(self) -> None:
        self.groups.restart()
        self.tokens.clear()  # connections are closed
        for client in self.clients:
            client.waits_for = None

    @rule(is_sure=st.sampled_from([False, False, True]))
    def leadership_moves(self, is_sure: bool) -> None:
        if is_sure:
            for completion in self.groups.machine.resign(self.groups.now):
                self.groups.replies[completion.token] = completion.reply

    # --- what always holds

    @property
    def group(self) -> ClassicGroup | None:
        found = self.groups.machine._state.groups.get("g")
        return found if isinstance(found, ClassicGroup) else None

    @invariant()
    def nobody_shares_a_partition_in_one_generation(self) -> None:
        working: dict[int, set[int]] = {}
        for client in self.clients:
            taken = working.setdefault(client.generation, set())
            if self.group is not None and client.generation == self.group.generation_id:
                assert not taken & client.owned
            taken |= client.owned

    @invariant()
    def a_stable_group_has_the_assignment_of_its_leader(self) -> None:
        group = self.group
        known = self.generations.get(group.generation_id) if group else None
        if group is None or known is None or group.state is not ClassicState.STABLE:
            return
        for member in group.members.values():
            if member.member_id in known.assignments and member.assignment:
                share = frozenset(parse_assignment(member.assignment).partitions["orders"])
                assert share == known.assignments[member.member_id]

    @invariant()
    def counts_add_up(self) -> None:
        group = self.group
        if group is None:
            return
        assert group.joined == sum(member.join_token is not None for member in group.members.values())
        for name, count in group._supporters.items():
            assert count == sum(name in dict(member.protocols) for member in group.members.values())
        assert set(group.static_members.values()) == {
            member.member_id for member in group.members.values() if member.instance_id is not None
        }
        assert group.leader_id is None or group.leader_id in group.members
        assert group.pending_sync <= set(group.members)

    @invariant()
    def a_follower_that_only_reads_the_log_knows_the_same(self) -> None:
        for record in self.groups.log[self.followed :]:
            self.follower.apply(through_bytes(record))
        self.followed = len(self.groups.log)
        assert replicated(self.follower) == replicated(self.groups.machine)

    @rule(cleaned=st.floats(0, 1))
    def the_cleaner_changes_nothing(self, cleaned: float) -> None:
        log = self.groups.log
        end = int(len(log) * cleaned)
        assert settled(self.groups.replayed([*compacted(log[:end]), *log[end:]])) == settled(self.groups.machine)

    def teardown(self) -> None:
        """Left in peace, everybody is answered and the group is stable, or empty."""
        if not hasattr(self, "groups"):
            return
        for _ in range(30):
            self.groups.advance(4_000)
            for number in range(len(self.clients)):
                self.goes_on(number)
        for client in self.clients:
            assert client.waits_for is None or client.waits_for in self.groups.replies or self.is_awaited(client)
        self.groups.advance(400_000)
        assert self.tokens <= self.groups.replies.keys()
        assert self.group is None or self.group.state in (ClassicState.STABLE, ClassicState.EMPTY)

    def is_awaited(self, client: Client) -> bool:
        return any(
            client.waits_for in (member.join_token, member.sync_token)
            for member in (self.group.members.values() if self.group else ())
        )


TestRandomClassicGroup = RandomClassicGroup.TestCase
TestRandomClassicGroup.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink and explain a failure takes minutes
)
