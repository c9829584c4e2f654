"""InitProducerId: idempotent and transactional producers."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.transactions import Transactional, a_producer, latest


@pytest.mark.parametrize("version", range(6))
def test_every_idempotent_producer_gets_an_id_of_its_own(ask: Asker, version: int) -> None:
    answers = [ask("InitProducerId", version, transactional_id=None, transaction_timeout_ms=1000) for _ in range(3)]

    assert [(a.error_code, a.producer_epoch) for a in answers] == [(0, 0)] * 3
    assert len({a.producer_id for a in answers}) == 3


def test_a_producer_that_lost_its_place_gets_a_new_id(ask: Asker) -> None:
    answer = ask("InitProducerId", 4, transactional_id=None, producer_id=12345, producer_epoch=3)

    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
    assert answer.producer_id != 12345


@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 3}, {"transactional_id": ""}])
def test_a_request_that_contradicts_itself_is_refused(ask: Asker, fields: dict[str, Any]) -> None:
    answer = ask("InitProducerId", 4, **({"transactional_id": None, "transaction_timeout_ms": 1000} | fields))

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("timeout", [-1, 0, 2**31 - 1])
def test_a_transaction_time_out_has_limits(ask: Asker, timeout: int) -> None:
    answer = ask("InitProducerId", 4, transactional_id="tx", transaction_timeout_ms=timeout)

    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_keeps_its_producer_id_and_every_holder_gets_the_next_epoch(
    prompt: Asker, version: int
) -> None:
    first = Transactional(prompt, f"init-{version}")
    second = Transactional(prompt, first.name)

    assert first.init(version) is second.init(version) is ErrorCode.NONE
    assert (second.id, first.epoch, second.epoch) == (first.id, 0, 1)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1000, ErrorCode.INVALID_REQUEST),
        ("x", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_who_makes_no_sense_gets_no_producer_id(
    prompt: Asker, version: int, name: str, timeout_ms: int, code: ErrorCode
) -> None:
    assert Transactional(prompt, name).init(version, timeout_ms) is code


def test_a_producer_that_lost_its_place_goes_on_with_the_next_epoch_unless_it_was_fenced(prompt: Asker) -> None:
    producer = a_producer(prompt)
    mine = {"producer_id": producer.id, "producer_epoch": producer.epoch}

    assert producer.init(**mine) is ErrorCode.NONE
    assert producer.epoch == 1
    assert a_holder_of(producer).init() is ErrorCode.NONE
    assert producer.init(**mine) is ErrorCode.PRODUCER_FENCED
    assert producer.init(version=3, **mine) is ErrorCode.INVALID_PRODUCER_EPOCH


def a_holder_of(producer: Transactional) -> Transactional:
    return Transactional(producer.ask, producer.name)


def test_who_takes_over_ends_what_was_open(prompt: Asker, topic: str) -> None:
    before = a_producer(prompt)
    before.add(topic)
    before.produce(topic)

    after = a_holder_of(before)

    assert after.init() is ErrorCode.NONE
    assert after.id == before.id
    assert after.epoch > before.epoch
    assert before.end().error_code == ErrorCode.PRODUCER_FENCED
    assert latest(prompt, topic, committed=True) == latest(prompt, topic, committed=False) == 2
