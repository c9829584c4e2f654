"""Transactions: what is committed is seen whole, what is aborted is never seen, and nobody stays in the way."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from interop_tests.support.broker import AnyBroker, external, running
from interop_tests.support.clients.base import Client, Message
from interop_tests.support.clients.confluent import Confluent, consumer
from interop_tests.support.groups import FAST_GROUPS, Groups, fresh_group
from interop_tests.support.partitions import last_stable_offset, read_all
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.transactions import (
    CALL_SECONDS,
    FAST_TRANSACTIONS,
    TRANSACTORS,
    Transaction,
    transact,
    transactional,
)
from interop_tests.support.wait import until
from interop_tests.support.worker import CallError, Worker

LONG_SECONDS = 40.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    given = external()
    if given is not None:
        yield given
        return
    with running(tmp_path_factory.mktemp("transactions"), FAST_GROUPS | FAST_TRANSACTIONS) as started:
        yield started


def begin(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    """Begin a transaction and have those values in the log."""
    producer.begin_transaction()
    write(producer, topic, *values, partition=partition)


def write(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(CALL_SECONDS) == 0


def refusal(raised: pytest.ExceptionInfo[KafkaException]) -> KafkaError:
    error: KafkaError = raised.value.args[0]
    return error


@pytest.mark.parametrize("name", TRANSACTORS)
def test_every_producer_commits_and_aborts(
    name: str, bootstrap: str, topics: Topics, request: pytest.FixtureRequest
) -> None:
    topic = topics.create()
    wanted = [
        Transaction(values=("a", "b"), commit=True),
        Transaction(values=("c",), commit=False),
        Transaction(values=("d", "e"), commit=True),
        Transaction(values=("f",), commit=False),
    ]

    transact(name, bootstrap, topic, fresh_name("tx"), wanted, request.getfixturevalue)

    assert read_all(bootstrap, topic) == {0: ["a", "b", "d", "e"]}
    assert read_all(bootstrap, topic, committed=False) == {0: ["a", "b", "c", "d", "e", "f"]}


@pytest.fixture(scope="module")
def interleaved(bootstrap: str, topics: Topics) -> str:
    """A topic with transactions between, over and after each other."""
    topic = topics.create("interleaved")
    one, two = (transactional(bootstrap, fresh_name("tx")) for _ in range(2))
    begin(one, topic, "one-kept")
    begin(two, topic, "two-dropped")
    Confluent().produce(bootstrap, topic, [Message(value=b"plain")])
    write(one, topic, "one-kept-too")
    two.abort_transaction(CALL_SECONDS)
    begin(two, topic, "two-kept")
    one.commit_transaction(CALL_SECONDS)
    begin(one, topic, *(f"one-dropped-{number}" for number in range(50)))
    two.commit_transaction(CALL_SECONDS)
    one.abort_transaction(CALL_SECONDS)
    Confluent().produce(bootstrap, topic, [Message(value=b"last")])
    return topic


def test_every_consumer_reads_only_what_was_committed_unless_it_wants_all(
    client: Client, bootstrap: str, interleaved: str
) -> None:
    kept = ["one-kept", "plain", "one-kept-too", "two-kept", "last"]
    dropped = ["two-dropped", *(f"one-dropped-{number}" for number in range(50))]

    committed = client.consume(bootstrap, interleaved, 0, start=0, count=len(kept), read_committed=True)
    whole = client.consume(bootstrap, interleaved, 0, start=0, count=len(kept) + len(dropped))

    assert [(record.value or b"").decode() for record in committed] == kept
    assert sorted((record.value or b"").decode() for record in whole) == sorted(kept + dropped)


def test_an_open_transaction_holds_back_what_comes_after_it(bootstrap: str, topics: Topics) -> None:
    topic = topics.create()
    Confluent().produce(bootstrap, topic, [Message(value=b"before")])
    producer = transactional(bootstrap, fresh_name("tx"))
    begin(producer, topic, "inside")
    Confluent().produce(bootstrap, topic, [Message(value=b"after")])

    assert last_stable_offset(bootstrap, topic) == 1
    assert read_all(bootstrap, topic) == {0: ["before"]}
    assert read_all(bootstrap, topic, committed=False) == {0: ["before", "inside", "after"]}

    producer.commit_transaction(CALL_SECONDS)
    until(lambda: last_stable_offset(bootstrap, topic) == 4, "the marker is behind the last record")
    assert read_all(bootstrap, topic) == {0: ["before", "inside", "after"]}


def test_a_second_producer_with_the_same_id_fences_the_first_of_librdkafka(bootstrap: str, topics: Topics) -> None:
    topic, name = topics.create(), fresh_name("tx")
    older = transactional(bootstrap, name)
    begin(older, topic, "older")

    newer = transactional(bootstrap, name)
    with pytest.raises(KafkaException) as raised:
        older.commit_transaction(CALL_SECONDS)
    begin(newer, topic, "newer")
    newer.commit_transaction(CALL_SECONDS)

    assert refusal(raised).fatal()
    assert refusal(raised).code() == KafkaError._FENCED
    assert read_all(bootstrap, topic) == {0: ["newer"]}


def test_a_second_producer_with_the_same_id_fences_the_first_of_java(
    bootstrap: str, topics: Topics, java: Worker
) -> None:
    topic = topics.create()

    told = java.call("fence", bootstrap, topic=topic, transactional_id=fresh_name("tx"))

    assert told == ["ProducerFencedException", "ProducerFencedException"]
    assert read_all(bootstrap, topic) == {0: ["newer"]}


def test_an_abandoned_transaction_is_aborted_and_its_producer_fenced(bootstrap: str, topics: Topics) -> None:
    topic = topics.create()
    producer = transactional(bootstrap, fresh_name("tx"), transaction_timeout_ms=1_000)
    begin(producer, topic, "abandoned")
    Confluent().produce(bootstrap, topic, [Message(value=b"after")])

    until(lambda: last_stable_offset(bootstrap, topic) == 3, "the stable offset moves on", seconds=LONG_SECONDS)

    assert read_all(bootstrap, topic) == {0: ["after"]}
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(CALL_SECONDS)
    assert refusal(raised).fatal() or refusal(raised).txn_requires_abort()


def test_the_broker_refuses_a_time_out_above_its_limit(bootstrap: str) -> None:
    with pytest.raises(KafkaException) as raised:
        transactional(bootstrap, fresh_name("tx"), transaction_timeout_ms=900_001)

    assert refusal(raised).code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("is_committed", [True, False])
def test_offsets_sent_to_a_transaction_count_when_it_is_committed(
    is_committed: bool, bootstrap: str, topics: Topics
) -> None:
    topic, group = topics.create(), fresh_group()
    place = (topic, 0)
    member = consumer(bootstrap, **{"group.id": group})
    member.commit(offsets=[TopicPartition(*place, offset=3)], asynchronous=False)
    producer = transactional(bootstrap, fresh_name("tx"))

    begin(producer, topic, "value")
    producer.send_offsets_to_transaction([TopicPartition(*place, offset=7)], member.consumer_group_metadata(), 20)
    during = Groups(bootstrap).committed(group)
    unstable = waits_for_stable_offsets(member, place)
    producer.commit_transaction(CALL_SECONDS) if is_committed else producer.abort_transaction(CALL_SECONDS)
    wanted = {place: 7 if is_committed else 3}
    until(lambda: Groups(bootstrap).committed(group) == wanted, f"{wanted} is committed")
    member.close()

    assert during == {place: 3}
    assert unstable


def waits_for_stable_offsets(member: Consumer, place: tuple[str, int]) -> bool:
    """A consumer asks for offsets that no open transaction may change, again and again."""
    try:
        member.committed([TopicPartition(*place)], 1)
    except KafkaException as error:
        return bool(error.args[0].code() in (KafkaError._TIMED_OUT, KafkaError.UNSTABLE_OFFSET_COMMIT))
    return False


def test_admin_lists_and_describes_transactions_and_their_producers(
    bootstrap: str, topics: Topics, java: Worker
) -> None:
    topic, name = topics.create(partitions=2), fresh_name("tx")
    producer = transactional(bootstrap, name, transaction_timeout_ms=54_321)
    begin(producer, topic, "a")
    write(producer, topic, "b", "c", partition=1)

    listed = java.call("list_transactions", bootstrap, states=["Ongoing"])
    by_pattern = java.call("list_transactions", bootstrap, pattern=f"^.{{1}}{name[1:]}$")
    described = java.call("describe_transaction", bootstrap, transactional_id=name)
    [writing] = java.call("describe_transactional_producers", bootstrap, topic=topic, partition=1)
    producer.commit_transaction(CALL_SECONDS)
    after = until(
        lambda: (
            (found := java.call("describe_transaction", bootstrap, transactional_id=name))["state"] == "CompleteCommit"
            and found
        ),
        "the transaction is complete",
    )
    [idle] = java.call("describe_transactional_producers", bootstrap, topic=topic, partition=1)

    assert listed[name] == "Ongoing"
    assert by_pattern == {name: "Ongoing"}
    assert described["timeout_ms"] == 54_321
    assert described["has_start"]
    assert described["partitions"] == [f"{topic}-0", f"{topic}-1"]
    assert (writing["id"], writing["epoch"]) == (described["producer_id"], described["epoch"])
    assert (writing["sequence"], writing["start"]) == (1, 0)
    assert after["partitions"] == []
    assert (idle["id"], idle["start"]) == (described["producer_id"], -1)
    assert idle["coordinator_epoch"] >= 0
    assert name not in java.call("list_transactions", bootstrap, states=["Ongoing"])


def test_admin_reports_a_transactional_id_that_is_unknown(bootstrap: str, java: Worker) -> None:
    with pytest.raises(CallError) as raised:
        java.call("describe_transaction", bootstrap, transactional_id=fresh_name("tx"))

    assert raised.value.name == "TransactionalIdNotFoundException"


def test_admin_fences_a_producer(bootstrap: str, topics: Topics, java: Worker) -> None:
    topic, name = topics.create(), fresh_name("tx")
    producer = transactional(bootstrap, name)
    begin(producer, topic, "fenced")

    java.call("fence_producer", bootstrap, transactional_id=name)

    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(CALL_SECONDS)
    assert refusal(raised).code() == KafkaError._FENCED
    assert read_all(bootstrap, topic) == {0: []}
