"""InitProducerId, AddPartitionsToTxn, EndTxn, WriteTxnMarkers, DescribeTransactions, ListTransactions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kompat.errors import ErrorCode

from .conftest import Asker
from .transactions import Transactional, a_producer, eventually, latest

ADD_VERSIONS = range(6)
FENCED_SINCE = 2  # version of AddPartitionsToTxn and EndTxn that knows PRODUCER_FENCED


@pytest.fixture
def topic(prompt: Asker) -> str:
    return prompt.new_topic(partitions=2)


def fenced(version: int) -> ErrorCode:
    return ErrorCode.PRODUCER_FENCED if version >= FENCED_SINCE else ErrorCode.INVALID_PRODUCER_EPOCH


# -- InitProducerId ----------------------------------------------------------------------------------------------------
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


# -- AddPartitionsToTxn ------------------------------------------------------------------------------------------------
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


# -- EndTxn ------------------------------------------------------------------------------------------------------------
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


# -- producing in a transaction ----------------------------------------------------------------------------------------
def test_an_older_producer_has_to_add_a_partition_before_it_writes_there(prompt: Asker, topic: str) -> None:
    producer = a_producer(prompt)

    assert producer.produce(topic, version=10) is ErrorCode.INVALID_TXN_STATE
    assert producer.produce(topic, version=11) is ErrorCode.TRANSACTION_ABORTABLE
    producer.add(topic)
    assert producer.produce(topic, version=11) is ErrorCode.NONE


def test_a_newer_producer_just_writes(prompt: Asker, topic: str) -> None:
    producer = a_producer(prompt, version=5)

    assert producer.produce(topic, version=12) is ErrorCode.NONE
    assert producer.describe().topics[0].partitions == [0]
    producer.commit()
    assert producer.produce(topic, version=12) is ErrorCode.NONE


# -- WriteTxnMarkers ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", [1, 2])
def test_an_operator_ends_a_transaction_that_hangs(prompt: Asker, version: int) -> None:
    topic = prompt.new_topic()
    producer = a_producer(prompt)
    producer.add(topic)
    producer.produce(topic)
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": topic, "partition_indexes": [0, 9]}, {"name": "no-such-topic", "partition_indexes": [0]}],
    }

    [told] = prompt("WriteTxnMarkers", version, markers=[marker]).markers

    assert told.producer_id == producer.id
    assert {each.name: [p.error_code for p in each.partitions] for each in told.topics} == {
        topic: [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        "no-such-topic": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    }
    assert latest(prompt, topic, committed=True) == 2
    older = {**marker, "producer_epoch": producer.epoch - 1, "topics": [{"name": topic, "partition_indexes": [0]}]}
    [refused] = prompt("WriteTxnMarkers", version, markers=[older]).markers
    assert refused.topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH


# -- DescribeTransactions and ListTransactions -------------------------------------------------------------------------
def test_a_transaction_is_described(prompt: Asker, topic: str) -> None:
    producer = a_producer(prompt)
    now = int(time.time() * 1000)
    producer.add(topic, 1)

    found = producer.describe()

    assert (found.error_code, found.transactional_id, found.transaction_state) == (0, producer.name, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == (producer.id, producer.epoch)
    assert found.transaction_timeout_ms == 60_000
    assert 0 <= found.transaction_start_time_ms - now < 60_000


def test_each_transactional_id_that_cannot_be_described_says_why(prompt: Asker) -> None:
    answer = prompt("DescribeTransactions", 0, transactional_ids=["nobody", ""])

    assert [(each.transactional_id, each.error_code) for each in answer.transaction_states] == [
        ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ]


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
