"""EndTxn."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.transactions import Transactional, a_producer, eventually, fenced, latest


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_and_readers_of_what_is_committed_go_on(prompt: Asker, version: int, commit: bool) -> None:
    topic = prompt.new_topic()
    producer = a_producer(prompt, version=version)
    producer.add(topic)
    assert producer.produce(topic) is ErrorCode.NONE
    assert latest(prompt, topic, committed=True) == 0

    (producer.commit if commit else producer.abort)()

    assert latest(prompt, topic, committed=True) == latest(prompt, topic, committed=False) == 2
    assert producer.describe().topics == []


def test_from_version_5_on_every_transaction_has_an_epoch_of_its_own(prompt: Asker, topic: str) -> None:
    producer = a_producer(prompt, version=5)
    before = a_producer(prompt).epoch
    old = Transactional(prompt, producer.name, producer.id, producer.epoch, version=5)
    producer.add(topic, version=5)
    producer.commit()

    assert producer.epoch == before + 1
    assert old.end().error_code == ErrorCode.NONE  # a retry of the same
    assert old.end(commit=False).error_code == ErrorCode.INVALID_TXN_STATE
    assert old.add(topic) == [ErrorCode.PRODUCER_FENCED]


def test_an_end_may_be_repeated_but_not_turned_around(prompt: Asker, topic: str) -> None:
    producer = a_producer(prompt)
    producer.add(topic)
    producer.commit()

    assert producer.end(commit=True).error_code == ErrorCode.NONE
    assert producer.end(commit=False).error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", range(6))
def test_only_who_holds_the_transactional_id_ends_its_transaction(prompt: Asker, topic: str, version: int) -> None:
    held = a_producer(prompt)
    held.add(topic)

    def end(**other: Any) -> ErrorCode:
        fields = {"name": held.name, "id": held.id, "epoch": held.epoch, **other}
        return ErrorCode(Transactional(prompt, version=version, **fields).end().error_code)

    assert end(name="nobody") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end(name="") is ErrorCode.INVALID_REQUEST
    assert end(id=held.id + 10**6) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end(epoch=held.epoch + 5) is fenced(version)
    assert held.state() == "Ongoing"


def test_a_transaction_that_is_left_alone_is_aborted_after_its_time(prompt: Asker) -> None:
    topic = prompt.new_topic()
    producer = a_producer(prompt)
    producer.init(timeout_ms=1)
    producer.add(topic)

    eventually(producer.state, lambda state: state == "CompleteAbort")

    assert producer.end().error_code == ErrorCode.PRODUCER_FENCED
