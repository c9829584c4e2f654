"""FindCoordinator."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker

SHARE_KEY = "group:aBU0NnlGSVqMdLMnaOhTUg:0"


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("key_type", [0, 1])
def test_this_broker_coordinates(ask: Asker, version: int, key_type: int) -> None:
    answer = ask("FindCoordinator", version, key="some", **({"key_type": key_type} if version else {}))

    assert (answer.error_code, answer.node_id) == (ErrorCode.NONE, 1)
    assert (answer.host, answer.port) == (ask.broker.host, ask.broker.port)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_many_coordinators_are_found_at_once(ask: Asker, version: int) -> None:
    answer = ask("FindCoordinator", version, key_type=0, coordinator_keys=["a", "b", ""])

    assert [(c.key, c.node_id, c.error_code, c.error_message) for c in answer.coordinators] == [
        ("a", 1, 0, ""),
        ("b", 1, 0, ""),
        ("", 1, 0, ""),
    ]


def test_share_partitions_have_coordinators_from_v6_on(ask: Asker) -> None:
    bad = ["bad", "", f"{SHARE_KEY}x", "group:short:0", ":aBU0NnlGSVqMdLMnaOhTUg:0"]

    new = ask("FindCoordinator", 6, key_type=2, coordinator_keys=[SHARE_KEY, *bad])
    old = ask("FindCoordinator", 5, key_type=2, coordinator_keys=[SHARE_KEY])

    assert [c.error_code for c in new.coordinators] == [0, *[ErrorCode.INVALID_REQUEST] * len(bad)]
    assert [(c.error_code, c.node_id) for c in old.coordinators] == [(ErrorCode.INVALID_REQUEST, -1)]


def test_an_unknown_kind_of_key_is_refused(ask: Asker) -> None:
    old = ask("FindCoordinator", 2, key="g", key_type=9)
    new = ask("FindCoordinator", 6, key_type=9, coordinator_keys=["g"])

    assert (old.error_code, old.node_id, old.port) == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert [c.error_code for c in new.coordinators] == [ErrorCode.INVALID_REQUEST]
