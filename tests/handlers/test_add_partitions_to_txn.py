"""AddPartitionsToTxn."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.transactions import Transactional, a_producer, fenced

ADD_VERSIONS = range(6)


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_partitions_are_added_in_every_version(prompt: Asker, topic: str, version: int) -> None:
    producer = a_producer(prompt)

    assert producer.add(topic, 0, 1, version=version) == [ErrorCode.NONE] * 2
    assert producer.state() == "Ongoing"
    [added] = producer.describe().topics
    assert (added.topic, added.partitions) == (topic, [0, 1])


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_if_one_partition_does_not_exist_none_is_added(prompt: Asker, topic: str, version: int) -> None:
    producer = a_producer(prompt)

    codes = producer.add(topic, 0, 9, version=version)

    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.state() == "Empty"


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_only_who_holds_the_transactional_id_adds_partitions(prompt: Asker, topic: str, version: int) -> None:
    held = a_producer(prompt)

    def add(**other: Any) -> list[ErrorCode]:
        fields = {"name": held.name, "id": held.id, "epoch": held.epoch, **other}
        return Transactional(prompt, **fields).add(topic, version=version)

    assert add(name="nobody") == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert add(name="") == [ErrorCode.INVALID_REQUEST]
    assert add(id=held.id + 10**6) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert add(epoch=held.epoch + 1) == [fenced(version)]
    assert add(epoch=held.epoch - 1) == [fenced(version)]


@pytest.mark.parametrize("version", [4, 5])
def test_what_is_only_to_be_verified_is_not_added(prompt: Asker, topic: str, version: int) -> None:
    producer = a_producer(prompt)
    producer.add(topic, 0)

    codes = producer.add(topic, 0, 1, version=version, verify_only=True)

    assert codes == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert producer.describe().topics[0].partitions == [0]


@pytest.mark.parametrize("version", [4, 5])
def test_many_transactions_are_added_to_at_once_and_each_is_answered(prompt: Asker, topic: str, version: int) -> None:
    producers = [a_producer(prompt) for _ in range(2)]
    topics = [{"name": topic, "partitions": [0]}]
    transactions = [
        {"transactional_id": p.name, "producer_id": p.id, "producer_epoch": p.epoch + wrong, "topics": topics}
        for wrong, p in enumerate(producers)
    ]

    answer = prompt("AddPartitionsToTxn", version, transactions=transactions)

    assert answer.error_code == ErrorCode.NONE
    told = {
        each.transactional_id: each.topic_results[0].results_by_partition[0].partition_error_code
        for each in answer.results_by_transaction
    }
    assert told == {producers[0].name: ErrorCode.NONE, producers[1].name: ErrorCode.PRODUCER_FENCED}
