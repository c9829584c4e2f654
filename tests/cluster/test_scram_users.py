"""Users in the metadata: made, changed and removed by records that bring them back after a restart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cluster.machine import ClusterMachine
from kompat.cluster.records import ClusterCodec
from kompat.cluster.scram_users import Deletion, ScramCredentialSet, Upsertion
from kompat.cluster.state import Broker
from kompat.errors import ErrorCode, KafkaError
from kompat.security.scram import Credential, Mechanism
from kompat.types import NodeId

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
KNOWN = Credential(b"salt", b"stored", b"server", 4096)


def alter(machine: ClusterMachine, *wanted: Deletion | Upsertion) -> dict[str, KafkaError | None]:
    decision = machine.alter_users(
        [each for each in wanted if isinstance(each, Deletion)],
        [each for each in wanted if isinstance(each, Upsertion)],
    )
    for record in decision.records:
        machine.apply(ClusterCodec().decode(*ClusterCodec().encode(record)))
    return decision.reply


def codes(outcomes: dict[str, KafkaError | None]) -> dict[str, ErrorCode | None]:
    return {user: error.code if error else None for user, error in outcomes.items()}


def test_a_user_is_made_changed_and_removed_by_mechanism() -> None:
    machine = ClusterMachine()

    assert codes(alter(machine, Upsertion("alice", SHA_256, KNOWN))) == {"alice": None}
    newer = Credential(b"pepper", b"x", b"y", 8192)
    alter(machine, Upsertion("alice", SHA_512, newer))
    assert machine.state.users == {"alice": {SHA_256: KNOWN, SHA_512: newer}}

    alter(machine, Deletion("alice", SHA_256))
    assert machine.state.users == {"alice": {SHA_512: newer}}
    alter(machine, Deletion("alice", SHA_512))
    assert machine.state.users == {}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (Upsertion("", SHA_256, KNOWN), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Upsertion("a", 0, KNOWN), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Upsertion("a", 3, KNOWN), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Upsertion("a", SHA_256, Credential(b"", b"", b"", 4095)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Upsertion("a", SHA_256, Credential(b"", b"", b"", 16385)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Deletion("a", SHA_256), ErrorCode.RESOURCE_NOT_FOUND),
        (Deletion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Deletion("a", 7), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_what_cannot_be_is_refused_and_the_others_are_not(wanted: Deletion | Upsertion, code: ErrorCode) -> None:
    machine = ClusterMachine()

    assert codes(alter(machine, wanted, Upsertion("bob", SHA_256, KNOWN))) == {wanted.user: code, "bob": None}
    assert set(machine.state.users) == {"bob"}


def test_a_user_that_is_named_twice_is_left_as_it_was() -> None:
    machine = ClusterMachine()
    alter(machine, Upsertion("alice", SHA_256, KNOWN))

    found = codes(alter(machine, Deletion("alice", SHA_256), Upsertion("alice", SHA_512, KNOWN)))

    assert found == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert machine.state.users == {"alice": {SHA_256: KNOWN}}


def test_first_users_are_made_where_nobody_has_their_name() -> None:
    machine = ClusterMachine()
    alter(machine, Upsertion("alice", SHA_512, KNOWN))
    other = Credential(b"other", b"x", b"y", 4096)
    wanted = [ScramCredentialSet(name, mechanism, other) for name in ("alice", "admin") for mechanism in Mechanism]

    for _ in range(2):
        decision = machine.first_users(wanted)
        for record in decision.records:
            machine.apply(record)

    assert decision.reply == []
    assert machine.state.users == {"alice": {SHA_512: KNOWN}, "admin": {SHA_256: other, SHA_512: other}}


def test_the_cluster_has_one_secret_for_stand_ins() -> None:
    machine = ClusterMachine()
    for node, secret in ((1, b"first"), (2, b"second")):
        for record in machine.join(Broker(NodeId(node)), cluster_id="cluster", secret=secret).records:
            machine.apply(ClusterCodec().decode(*ClusterCodec().encode(record)))

    assert machine.state.stand_ins.secret == b"first"
    alter(machine, Upsertion("alice", SHA_256, KNOWN))
    shapes = machine.state.stand_ins.shapes
    alter(machine, Deletion("alice", SHA_256))
    assert machine.state.stand_ins.shapes == shapes != {}


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.builds(Deletion, st.sampled_from("abc"), st.sampled_from(Mechanism)),
            st.builds(
                Upsertion,
                st.sampled_from("abc"),
                st.sampled_from(Mechanism),
                st.builds(Credential, st.binary(), st.binary(), st.binary(), st.integers(4096, 16384)),
            ),
        ),
        max_size=12,
    )
)
def test_a_snapshot_has_the_users(steps: list[Deletion | Upsertion]) -> None:
    machine, copy = ClusterMachine(), ClusterMachine()
    for step in steps:
        alter(machine, step)

    for record in machine.snapshot():
        copy.apply(ClusterCodec().decode(*ClusterCodec().encode(record)))

    assert copy.state.users == machine.state.users
    assert copy.state.stand_ins == machine.state.stand_ins
    assert machine.state.copy() == machine.state
