"""The same requests by the same two parties to kompat and to Apache Kafka with its StandardAuthorizer: who is denied what, and how.

Runs where KOMPAT_TEST_GUARDED_ORACLE=host:port,host:port names a fresh Apache Kafka 4.3 with the settings of
tests/handlers/parties.py: its plaintext listener, and the one for SASL.
"""

import os
import socket
from collections.abc import Iterator

import pytest

import kompat.testing
from interop_tests.support.pair import differences, plain
from interop_tests.support.wait import until
from tests.handlers import rights, wire
from tests.handlers.parties import SETTINGS, Address, Parties
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
