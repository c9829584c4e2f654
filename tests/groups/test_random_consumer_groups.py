"""Random lives of consumer groups, with members of both protocols, lost answers, restarts and changing topics.

Clients behave as Kafka's do: they take what they are told, let go first, and say so with their next heartbeat.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.config import GroupSettings, ModernGroupSettings
from kompat.groups.consumer_protocol import parse_assignment
from kompat.groups.machine.consumer import ConsumerGroup
from tests.groups.harness import Groups, compacted, replicated, settled, table, through_bytes, topic_id_of

pytestmark = pytest.mark.slow

NAMES = ["a", "b", "c", "d"]
Place = tuple[UUID, int]
REFUSALS = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)


@dataclass
class AnyClient:
    member_id: str
    topics: tuple[str, ...]
    owned: set[Place] = field(default_factory=set)  # what it works on


@dataclass
class Client(AnyClient):
    """A consumer with `group.protocol=consumer`."""

    regex: str | None = None
    instance_id: str | None = None
    epoch: int = 0

    def partitions(self) -> dict[UUID, tuple[int, ...]]:
        found: dict[UUID, tuple[int, ...]] = {}
        for topic_id, number in sorted(self.owned):
            found[topic_id] = (*found.get(topic_id, ()), number)
        return found

    def reset(self) -> None:
        self.epoch = 0
        self.owned.clear()


@dataclass
class ClassicClient(AnyClient):
    generation: int = -1
    is_cooperative: bool = True


def places(assignment: Any) -> set[Place]:
    return {(topic_id, number) for topic_id, part in assignment.items() for number in part}


class RandomConsumerGroup(RuleBasedStateMachine):
    @initialize(interval=st.sampled_from([0, 1_000]))
    def begin(self, interval: int) -> None:
        consumer = ModernGroupSettings(assignment_interval_ms=interval, session_timeout_ms=10_000)
        self.partitions = {"a": 3, "b": 2}
        self.version = 1
        self.groups = Groups(GroupSettings(consumer=consumer), table(1, **self.partitions))
        self.follower = self.groups.replayed([])
        self.followed = 0
        self.clients: list[Client] = []
        self.classics: list[ClassicClient] = []
        self.offsets: dict[int, int] = {}
        self.serial = 0

    # --- consumers of the new protocol

    @precondition(lambda self: len(self.clients) < 5)
    @rule(
        topics=st.lists(st.sampled_from(NAMES), unique=True, max_size=3),
        regex=st.sampled_from([None, None, None, "a|b", "[c-d]", ".*"]),
        is_static=st.booleans(),
        assignor=st.sampled_from([None, "uniform", "range"]),
    )
    def enter(self, topics: list[str], regex: str | None, is_static: bool, assignor: str | None) -> None:
        self.serial += 1
        instance = f"i{self.serial}" if is_static else None
        client = Client(f"m{self.serial}", tuple(topics), regex=regex, instance_id=instance)
        self.clients.append(client)
        self.join(client, server_assignor=assignor)

    def join(self, client: Client, **options: Any) -> None:
        client.reset()
        self.send(
            client,
            rebalance_timeout_ms=8_000,
            subscribed_topic_names=client.topics,
            subscribed_topic_regex=client.regex,
            topic_partitions={},
            **options,
        )

    def send(self, client: Client, *, is_lost: bool = False, **options: Any) -> None:
        try:
            reply = self.groups.beat(client.member_id, client.epoch, instance_id=client.instance_id, **options)
        except KafkaError as error:
            if error.code not in REFUSALS:
                raise
            client.reset()
            return
        if is_lost:
            return
        client.epoch = reply.member_epoch
        if reply.assignment is not None:
            client.owned = places(reply.assignment)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), says_what_it_owns=st.booleans(), is_lost=st.booleans())
    def heartbeat(self, which: int, says_what_it_owns: bool, is_lost: bool) -> None:
        client = self.clients[which % len(self.clients)]
        if client.epoch == 0:
            self.join(client)
        elif is_lost:
            self.send(client, is_lost=True, topic_partitions=client.partitions())
            if client.epoch > 0:  # after any failure the next heartbeat tells everything
                self.send(
                    client,
                    rebalance_timeout_ms=8_000,
                    subscribed_topic_names=client.topics,
                    subscribed_topic_regex=client.regex,
                    topic_partitions=client.partitions(),
                )
        else:
            self.send(client, topic_partitions=client.partitions() if says_what_it_owns else None)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), topics=st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    def resubscribe(self, which: int, topics: list[str]) -> None:
        client = self.clients[which % len(self.clients)]
        client.topics = tuple(topics)
        if client.epoch > 0:
            self.send(client, subscribed_topic_names=client.topics)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), how=st.sampled_from(["leaves", "vanishes", "comes back"]))
    def go(self, which: int, how: str) -> None:
        client = self.clients.pop(which % len(self.clients))
        if how == "vanishes" or client.epoch == 0:
            return
        comes_back = how == "comes back" and client.instance_id is not None
        client.epoch = -2 if comes_back else -1
        self.send(client)
        if comes_back:
            self.serial += 1
            client.member_id = f"m{self.serial}"
            self.clients.append(client)
            self.join(client)

    # --- consumers of the classic protocol

    @precondition(lambda self: len(self.classics) < 2 and self.group is not None and not self.group.is_empty)
    @rule(topics=st.lists(st.sampled_from(NAMES), unique=True, max_size=3), is_cooperative=st.booleans())
    def enter_classic(self, topics: list[str], is_cooperative: bool) -> None:
        refused = self.groups.joined(self.groups.join(topics=topics))
        if refused.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.classics.append(ClassicClient(refused.member_id, tuple(topics), is_cooperative=is_cooperative))
            self.rejoin(self.classics[-1])

    def rejoin(self, client: ClassicClient) -> None:
        if self.group is None or self.group.is_empty:
            self.classics.remove(client)  # the group is a classic one now: another test
            return
        names = {topic_id_of(name): name for name in NAMES}
        if not client.is_cooperative:
            client.owned.clear()
        owned: dict[str, list[int]] = {}
        for topic_id, number in sorted(client.owned):
            owned.setdefault(names[topic_id], []).append(number)
        reply = self.groups.joined(
            self.groups.join(member_id=client.member_id, topics=client.topics, owned=owned, rebalance_ms=8_000)
        )
        if reply.error is not ErrorCode.NONE or self.group is None:
            self.classics.remove(client)
            return
        client.generation = reply.generation_id
        synced = self.groups.synced(self.groups.sync(client.member_id, client.generation))
        if synced.error is ErrorCode.NONE:
            named = parse_assignment(synced.assignment).partitions
            client.owned = {(topic_id_of(name), number) for name, part in named.items() for number in part}

    @precondition(lambda self: self.classics and self.group is not None)
    @rule(which=st.integers(0, 9))
    def heartbeat_classic(self, which: int) -> None:
        client = self.classics[which % len(self.classics)]
        error = self.groups.heartbeat(client.member_id, client.generation)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin(client)
        elif error is not ErrorCode.NONE:
            self.classics.remove(client)

    @precondition(lambda self: self.classics)
    @rule(which=st.integers(0, 9))
    def leave_classic(self, which: int) -> None:
        client = self.classics.pop(which % len(self.classics))
        self.groups.leave(client.member_id)

    # --- the world

    @rule(ms=st.sampled_from([100, 1_000, 4_000]))
    def time_passes(self, ms: int) -> None:
        self.groups.advance(ms)

    @rule(name=st.sampled_from(NAMES), count=st.integers(0, 5))
    def topic_changes(self, name: str, count: int) -> None:
        """It is created, grows, or is deleted; deleted for good, as another with its name has another id."""
        known = self.partitions.get(name)
        if count > (known or 0):
            self.partitions[name] = count
        elif count == 0 and known and name == "d":
            del self.partitions[name]
        else:
            return
        self.version += 1
        self.groups.set_topics(table(self.version, **self.partitions), name)

    @rule()
    def broker_restarts(self) -> None:
        self.groups.restart()

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), offset=st.integers(0, 99), partition=st.integers(0, 2))
    def commit(self, which: int, offset: int, partition: int) -> None:
        client = self.clients[which % len(self.clients)]
        done = self.groups.commit(
            offset, topic="a", partition=partition, member_id=client.member_id, generation_id=client.epoch
        )
        if done is ErrorCode.NONE:
            self.offsets[partition] = offset

    def everybody(self) -> list[AnyClient]:
        return [*self.clients, *self.classics]

    # --- what always holds

    @property
    def group(self) -> ConsumerGroup | None:
        found = self.groups.machine._state.groups.get("g")
        return found if isinstance(found, ConsumerGroup) else None

    @invariant()
    def no_partition_has_two_holders(self) -> None:
        held: dict[Place, str] = {}
        for member in self.group.members.values() if self.group else ():
            for place in places(member.assigned) | places(member.pending_revocation):
                assert place not in held
                held[place] = member.member_id
                assert self.group is not None
                assert self.group.holder(*place) == member.member_id

    @invariant()
    def no_two_members_work_on_the_same_partition(self) -> None:
        working: set[Place] = set()
        members = self.group.members if self.group else {}
        for client in self.everybody():
            if client.member_id in members:  # who was thrown out does not know it yet
                assert not working & client.owned
                working |= client.owned

    @invariant()
    def a_follower_that_only_reads_the_log_knows_the_same(self) -> None:
        for record in self.groups.log[self.followed :]:
            self.follower.apply(through_bytes(record))
        self.followed = len(self.groups.log)
        assert replicated(self.follower) == replicated(self.groups.machine)

    @invariant()
    def offsets_are_where_they_were_put(self) -> None:
        for partition, offset in self.offsets.items():
            assert self.groups.fetch(topic="a", partition=partition).offset == offset

    @rule(cleaned=st.floats(0, 1))
    def the_cleaner_changes_nothing(self, cleaned: float) -> None:
        log = self.groups.log
        end = int(len(log) * cleaned)
        assert settled(self.groups.replayed([*compacted(log[:end]), *log[end:]])) == settled(self.groups.machine)

    def teardown(self) -> None:
        """Left in peace, the group becomes stable with everything assigned."""
        if not hasattr(self, "groups"):
            return
        for _ in range(14):
            self.groups.advance(1_500)
            for client in self.clients:
                if client.epoch == 0:
                    self.join(client)
                else:
                    self.send(client, topic_partitions=client.partitions())
            for classic in list(self.classics):
                if self.group is not None:
                    self.heartbeat_classic(self.classics.index(classic))
            self.no_two_members_work_on_the_same_partition()
        self.a_follower_that_only_reads_the_log_knows_the_same()
        self.offsets_are_where_they_were_put()
        if self.group is None or not self.clients or any(client.epoch == 0 for client in self.clients):
            return
        assert self.group.state == "Stable"
        wanted = {
            (topic_id_of(name), number)
            for name in self.group.subscriptions.topics
            for number in range(self.partitions.get(name, 0))
        }
        working = [place for client in self.everybody() for place in client.owned]
        assert sorted(working) == sorted(wanted)


TestRandomConsumerGroup = RandomConsumerGroup.TestCase
TestRandomConsumerGroup.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink and explain a failure takes minutes
)
