"""ACLs and quotas in the cluster's metadata: decided, written down, read back, asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kompat.clock import ManualClock
from kompat.cluster.authorizer import MOST_REMEMBERED, Authorizer
from kompat.cluster.client_quotas import ClientQuotas, Waits
from kompat.cluster.machine import ClusterMachine
from kompat.cluster.quotas import ANY, DEFAULT, EXACT, Component, QuotaChange, matching
from kompat.cluster.records import ClusterCodec, ClusterRecord
from kompat.config.broker import BrokerConfig
from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import Acl, AclFilter, Kind, Operation, Pattern, Permission
from kompat.security.quotas import CLIENT_ID, IP, USER

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
READS = Acl(Kind.TOPIC, "a", Pattern.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
DENIES = Acl(Kind.GROUP, "g", Pattern.PREFIXED, "User:*", "10.0.0.1", Operation.ALL, Permission.DENY)
ALICE = frozenset({(USER, "alice")})


class Written:
    """A machine whose records all go through the codec."""

    def __init__(self) -> None:
        self.machine = ClusterMachine()
        self.watchers: list[Any] = []

    @property
    def image(self) -> Any:
        return self.machine.state

    def watch(self, watcher: Any) -> None:
        self.watchers.append(watcher)

    def do(self, decision: Decision[ClusterRecord, Any]) -> Any:
        codec = ClusterCodec()
        for record in decision.records:
            self.machine.apply(codec.decode(*codec.encode(record)))
        for watcher in self.watchers:
            watcher(SimpleNamespace(quotas=True))
        return decision.reply

    def alter(self, entity: Sequence[tuple[str, str | None]], **quotas: float | None) -> KafkaError | None:
        [outcome] = self.do(self.machine.alter_quotas([QuotaChange(entity, list(quotas.items()))]))
        return cast("KafkaError | None", outcome)


def test_what_is_written_down_is_read_back_and_stands_in_a_snapshot() -> None:
    written = Written()
    written.do(written.machine.create_acls([READS, DENIES]))
    written.alter([(USER, "alice"), (CLIENT_ID, None)], producer_byte_rate=5, request_percentage=0.5)

    taken_up = ClusterMachine()
    codec = ClusterCodec()
    for record in written.machine.snapshot():
        taken_up.apply(codec.decode(*codec.encode(record)))

    assert taken_up.state == written.machine.state
    assert set(taken_up.state.acls) == {READS, DENIES}
    assert taken_up.state.copy() == taken_up.state


def test_what_is_there_already_is_neither_refused_nor_written_again() -> None:
    written = Written()
    assert written.do(written.machine.create_acls([READS, READS])) == [None, None]

    again = written.machine.create_acls([READS])

    assert (again.records, again.reply) == ([], [None])


def test_filters_that_match_the_same_both_tell_of_it_and_it_is_removed_once() -> None:
    written = Written()
    written.do(written.machine.create_acls([READS, DENIES]))

    decision = written.machine.delete_acls([AclFilter(kind=Kind.TOPIC), AclFilter(name="a"), AclFilter(kind=Kind(0))])

    assert [*decision.reply[:2]] == [[READS], [READS]]
    assert isinstance(decision.reply[2], KafkaError)
    assert len(decision.records) == 1
    written.do(decision)
    assert set(written.image.acls) == {DENIES}


# -- quotas -------------------------------------------------------------------------------------------------------------
def test_quotas_of_an_entity_are_changed_one_by_one_and_it_goes_with_the_last() -> None:
    written = Written()
    written.alter([(USER, "alice")], producer_byte_rate=5, consumer_byte_rate=6)
    written.alter([(USER, "alice")], producer_byte_rate=None, request_percentage=1.5)
    assert written.image.quotas == {ALICE: {"consumer_byte_rate": 6, "request_percentage": 1.5}}

    written.alter([(USER, "alice")], consumer_byte_rate=None, request_percentage=None)

    assert written.image.quotas == {}


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ([], {"producer_byte_rate": 1}),
        ([(USER, "")], {"producer_byte_rate": 1}),
        ([("group", "g")], {"producer_byte_rate": 1}),
        ([(USER, "a"), (USER, "b")], {"producer_byte_rate": 1}),
        ([(IP, "10.0.0.1"), (USER, "a")], {"connection_creation_rate": 1}),
        ([(IP, "not an address")], {"connection_creation_rate": 1}),
        ([(IP, None)], {"producer_byte_rate": 1}),
        ([(USER, "a")], {"connection_creation_rate": 1}),
        ([(USER, "a")], {"producer_byte_rate": 0}),
        ([(USER, "a")], {"producer_byte_rate": 0.5}),
        ([(USER, "a")], {"producer_byte_rate": 1e19}),
        ([(USER, "a")], {"request_percentage": float("nan")}),
    ],
)
def test_what_makes_no_sense_is_refused(entity: list[tuple[str, str | None]], quotas: dict[str, float]) -> None:
    written = Written()
    refused = written.alter(entity, **quotas)

    assert refused is not None
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert written.image.quotas == {}


def test_filters_find_one_the_default_or_any_and_strict_ones_nothing_more() -> None:
    both = frozenset({(USER, "alice"), (CLIENT_ID, None)})
    quotas = {ALICE: {"a": 1.0}, both: {"b": 2.0}, frozenset({(USER, None)}): {"c": 3.0}}

    def found(*components: Component, is_strict: bool = False) -> set[str]:
        matches = matching(components, is_strict=is_strict)
        return {key for entity, values in quotas.items() if matches(entity) for key in values}

    assert found() == {"a", "b", "c"}
    assert found(is_strict=True) == set()
    assert found(Component(USER, EXACT, "alice")) == {"a", "b"}
    assert found(Component(USER, EXACT, "alice"), is_strict=True) == {"a"}
    assert found(Component(USER, DEFAULT)) == {"c"}
    assert found(Component(USER, ANY), is_strict=True) == {"a", "c"}
    assert found(Component(USER, ANY), Component(CLIENT_ID, ANY)) == {"b"}


def test_nothing_is_counted_until_somebody_has_a_quota() -> None:
    written, clock = Written(), ManualClock()
    quotas = ClientQuotas(cast("Any", written), BrokerConfig(), clock)
    assert (quotas.is_enabled, quotas.counts_connections) == (False, False)

    written.alter([(USER, "alice")], producer_byte_rate=1000)
    assert (quotas.is_enabled, quotas.counts_connections) == (True, False)
    assert quotas.produced("User:alice", "app", 10_000) == 0
    assert quotas.produced("User:alice", "app", 1000) == 1000
    assert quotas.produced("User:bob", "app", 1 << 40) == 0
    clock.advance(12_000)
    assert quotas.produced("User:alice", "app", 10_000) == 0
    assert {key: waits for key, waits in quotas.waits.items() if waits.count} == {"producer_byte_rate": Waits(1, 1000)}

    written.alter([(USER, "alice")], producer_byte_rate=None)
    written.alter([(IP, None)], connection_creation_rate=1)
    assert (quotas.is_enabled, quotas.counts_connections) == (False, True)


# -- the authorizer -----------------------------------------------------------------------------------------------------
@dataclass
class Someone:
    principal: str = "User:alice"
    client_host: str = "10.0.0.1"


def _authorizer(written: Written, **settings: str) -> Authorizer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Authorizer(cast("Any", written), BrokerConfig({"authorizer.class.name": AUTHORIZER} | given))


def test_an_answer_counts_until_an_acl_changes() -> None:
    written = Written()
    authorizer = _authorizer(written)
    asked = Someone(), Operation.READ, Kind.TOPIC, "a"
    assert not authorizer.allows(*asked)

    written.do(written.machine.create_acls([READS]))
    assert authorizer.allows(*asked)
    assert authorizer.allows_any(Someone(), Operation.READ, Kind.TOPIC)

    written.do(written.machine.delete_acls([AclFilter()]))
    assert not authorizer.allows(*asked)
    assert not authorizer.allows_any(Someone(), Operation.READ, Kind.TOPIC)


def test_settings_name_super_users_and_open_what_no_acl_speaks_of() -> None:
    written = Written()
    written.do(written.machine.create_acls([READS]))
    authorizer = _authorizer(written, super_users="User:root; User:CN=x,O=y", allow_everyone_if_no_acl_found="true")
    asked = Operation.WRITE, Kind.TOPIC

    for principal in ("User:root", "User:CN=x,O=y"):
        assert authorizer.allows(Someone(principal), *asked, "a")
    assert not authorizer.allows(Someone(), *asked, "a")
    assert authorizer.allows(Someone(), *asked, "b")


def test_questions_of_ever_new_names_do_not_fill_the_memory() -> None:
    authorizer = _authorizer(Written())
    for number in range(MOST_REMEMBERED + 10):
        authorizer.allows(Someone(), Operation.READ, Kind.TOPIC, f"topic-{number}")

    assert len(authorizer._known) <= MOST_REMEMBERED


def test_a_request_that_is_denied_many_names_writes_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    authorizer = _authorizer(Written())
    for number in range(1_000):
        authorizer.allows(Someone(), Operation.READ, Kind.TOPIC, f"topic-{number}")

    assert len(caplog.records) == 1


def test_without_an_authorizer_everything_is_allowed_and_there_are_no_acls() -> None:
    authorizer = Authorizer(cast("Any", Written()), BrokerConfig())

    assert authorizer.allows(Someone(), Operation.ALTER, Kind.CLUSTER)
    with pytest.raises(KafkaError) as raised:
        authorizer.find(AclFilter())
    assert raised.value.code is ErrorCode.SECURITY_DISABLED
