"""ListTransactions."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.transactions import Transactional, a_producer


@pytest.fixture(scope="module")
def pair(prompt: Asker) -> dict[str, Transactional]:
    """An id without a transaction and one with."""
    pair = {"idle": a_producer(prompt), "busy": a_producer(prompt)}
    pair["busy"].add(prompt.new_topic())
    return pair


def listed(ask: Asker, pair: dict[str, Transactional], version: int, **filters: Any) -> set[str]:
    answer = ask("ListTransactions", version, **filters)
    assert answer.error_code == ErrorCode.NONE
    found = {each.transactional_id: (each.producer_id, each.transaction_state) for each in answer.transaction_states}
    assert found.get(pair["busy"].name, (pair["busy"].id, "Ongoing")) == (pair["busy"].id, "Ongoing")
    return {kind for kind, producer in pair.items() if producer.name in found}


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed_by_state_and_producer_in_every_version(
    prompt: Asker, pair: dict[str, Transactional], version: int
) -> None:
    assert listed(prompt, pair, version) == {"idle", "busy"}
    assert listed(prompt, pair, version, state_filters=["Ongoing"]) == {"busy"}
    assert listed(prompt, pair, version, state_filters=["PrepareEpochFence"]) == set()
    assert listed(prompt, pair, version, producer_id_filters=[pair["idle"].id]) == {"idle"}


def test_states_that_are_none_are_named(prompt: Asker, pair: dict[str, Transactional]) -> None:
    answer = prompt("ListTransactions", 2, state_filters=["Ongoing", "ongoing", "Running"])

    assert answer.unknown_state_filters == ["ongoing", "Running"]
    assert listed(prompt, pair, 2, state_filters=["Running"]) == set()


def test_transactions_are_listed_by_age_and_pattern(prompt: Asker, pair: dict[str, Transactional]) -> None:
    assert listed(prompt, pair, 1, duration_filter=60_000) == {"idle"}
    assert listed(prompt, pair, 1, duration_filter=-1) == {"idle", "busy"}
    assert listed(prompt, pair, 2, transactional_id_pattern=pair["idle"].name) == {"idle"}
    assert listed(prompt, pair, 2, transactional_id_pattern="transactional-.*") == {"idle", "busy"}
    assert listed(prompt, pair, 2, transactional_id_pattern="transactional") == set()
    refused = prompt("ListTransactions", 2, transactional_id_pattern="(")
    assert (refused.error_code, refused.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
