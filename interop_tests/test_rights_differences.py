"""The same requests by the same two parties to kompat and to Apache Kafka with its StandardAuthorizer: who is denied what, and how.

Runs where KOMPAT_TEST_GUARDED_ORACLE=host:port,host:port names a fresh Apache Kafka 4.3 with the settings of
tests/handlers/principals.py: its plaintext listener, and the one for SASL.
"""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

import kompat.testing
from interop_tests.support.pair import differences, plain
from interop_tests.support.wait import until
from tests.handlers import rights, wire
from tests.handlers.principals import SETTINGS, Address, Parties
from tests.handlers.rights import CASES, Case

ORACLE = os.environ.get("KOMPAT_TEST_GUARDED_ORACLE")
pytestmark = pytest.mark.skipif(not ORACLE, reason="KOMPAT_TEST_GUARDED_ORACLE names no Apache Kafka to compare with")

Both = tuple[Parties, Parties]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Both]:
    assert ORACLE
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "group.initial.rebalance.delay.ms": 0,
    }
    with kompat.testing.broker(SETTINGS | listeners) as broker:
        ours = Parties((broker.host, broker.port), ("127.0.0.1", port))
        theirs = Parties(*map(_address, ORACLE.split(",")))
        for parties in (ours, theirs):
            parties.prepare()
            until(parties.has_coordinators, "coordinators are there", seconds=30)
        yield ours, theirs


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


@pytest.fixture
def both(guarded: Both) -> Iterator[Both]:
    for parties in guarded:
        parties.revoke_all()
    yield guarded
    for parties in guarded:
        parties.revoke_all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_rights_both_answer_the_same(both: Both, case: Case) -> None:
    ours, theirs = (plain(parties.asks(case).to_dict()) for parties in both)

    assert list(differences(ours, theirs, case.api)) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_with_ever_more_rights_both_deny_the_same(both: Both, case: Case) -> None:
    for right in case.needs:
        for parties in both:
            parties.allow(right)
        ours, theirs = both
        expected = wire.error_codes(ours.asks(case)) & rights.DENIALS
        # Kafka's authorizer hears of an ACL a moment after its controller has answered.
        until(
            lambda: (wire.error_codes(theirs.asks(case)) & rights.DENIALS) == expected,  # noqa: B023
            f"Kafka denies {expected} after {right}",
        )


# -- the administration of ACLs and quotas -------------------------------------------------------------------------------
ACL = {
    "resource_type": 2,
    "resource_name": "some",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
# Where a type is one of those for filters, Kafka says UNKNOWN_SERVER_ERROR, kompat INVALID_REQUEST.
ODD_ACLS: tuple[dict[str, Any], ...] = (
    {},
    {},  # again
    {"resource_type": 4, "resource_name": "kafka-cluster"},
    {"resource_type": 4, "resource_name": "other"},
    {"resource_type": 7, "resource_name": "User:y", "operation": 13},
    {"resource_name": ""},
    {"resource_name": "*"},
    {"resource_pattern_type": 4},
    {"operation": 2},
    {"operation": 9},
    {"operation": 15},
    {"permission_type": 2},
    {"principal": "Group:x"},
    {"principal": "nobody"},
    {"host": "10.0.0.1"},
    {"host": ""},
)
FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"resource_type_filter": 2},
    {"resource_name_filter": "some"},
    {"resource_name_filter": "some", "pattern_type_filter": 2},
    {"resource_name_filter": "something", "pattern_type_filter": 2},
    {"resource_name_filter": "something"},
    {"resource_name_filter": "*", "pattern_type_filter": 3},
    {"pattern_type_filter": 4},
    {"principal_filter": "User:x"},
    {"principal_filter": "User:nobody"},
    {"host_filter": "*"},
    {"operation": 3},
    {"permission_type": 2},
)


def _agree(both: Both, api: str, version: int, **fields: Any) -> None:
    title = f"{api} {fields}"
    ours, theirs = (plain(_admin(parties, title, api, version, fields)) for parties in both)
    assert list(differences(ours, theirs, title)) == []


def _admin(parties: Parties, title: str, api: str, version: int, fields: dict[str, Any]) -> Any:
    try:
        return parties.admin(api, version, **fields).to_dict()
    except OSError as error:
        raise AssertionError(f"{title}: {error}") from error


def test_acls_are_made_found_and_removed_alike(both: Both) -> None:
    for odd in ODD_ACLS:
        _agree(both, "CreateAcls", 3, creations=[ACL | odd])
    # Kafka's broker hears of the last of them a moment later.
    count = len(both[0].admin("DescribeAcls", 3, **FILTER).resources)
    until(lambda: len(both[1].admin("DescribeAcls", 3, **FILTER).resources) == count, "Kafka has heard of all ACLs")
    for wanted in FILTERS:
        _agree(both, "DescribeAcls", 3, **(FILTER | wanted))
    for wanted in reversed(FILTERS):
        _agree(both, "DeleteAcls", 3, filters=[FILTER | wanted])


ENTITIES: tuple[dict[str, str | None], ...] = (
    {"user": "alice"},
    {"user": None},
    {"user": "alice", "client-id": "app"},
    {"user": "alice", "client-id": None},
    {"client-id": "app"},
    {"client-id": None},
    {"ip": "10.0.0.1"},
    {"ip": None},
    {"ip": "10.0.0.1", "user": "alice"},
    {"ip": "no.such.host.invalid"},
    {"user": ""},
    {"group": "x"},
    {},
)
QUOTAS: tuple[tuple[str, float, bool], ...] = (
    ("producer_byte_rate", 1000, False),
    ("consumer_byte_rate", 1.5, False),
    ("request_percentage", 12.5, False),
    ("controller_mutation_rate", 0.5, False),
    ("connection_creation_rate", 1e6, False),
    ("connection_creation_rate", 3e9, False),
    ("producer_byte_rate", 0, False),
    ("producer_byte_rate", -1, False),
    ("no_such_rate", 1, False),
    ("no_such_rate", 1, True),
    ("producer_byte_rate", 0, True),
)
COMPONENTS: tuple[list[tuple[str, int, str | None]], ...] = (
    [],
    [("user", 0, "alice")],
    [("user", 1, None)],
    [("user", 2, None)],
    [("client-id", 2, None)],
    [("user", 2, None), ("client-id", 2, None)],
    [("user", 0, "alice"), ("client-id", 1, None)],
    [("ip", 2, None)],
    [("ip", 2, None), ("user", 2, None)],
    [("user", 2, None), ("user", 1, None)],
    [("user", 0, None)],
    [("user", 1, "alice")],
    [("user", 3, None)],
    [("group", 2, None)],
    [("", 2, None)],
)


def test_quotas_are_set_and_found_alike(both: Both) -> None:
    for entity in ENTITIES:
        named = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
        for key, value, is_removed in QUOTAS:
            op = {"key": key, "value": value, "remove": is_removed}
            _agree(both, "AlterClientQuotas", 1, entries=[{"entity": named, "ops": [op]}])
    everything = {"components": [], "strict": False}
    count = len(both[0].admin("DescribeClientQuotas", 1, **everything).entries)
    until(
        lambda: len(both[1].admin("DescribeClientQuotas", 1, **everything).entries) == count, "Kafka knows all quotas"
    )
    for wanted in COMPONENTS:
        parts = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in wanted]
        for is_strict in (False, True):
            _agree(both, "DescribeClientQuotas", 1, components=parts, strict=is_strict)
