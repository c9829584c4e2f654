"""Transactions when the broker dies, and when its cleaning meets them."""

import random
import threading
import time

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.protocol.producer import EndTxnRequest

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import Broker
from interop_tests.support.clients.base import Fetched, Message
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.groups import FAST_GROUPS
from interop_tests.support.partitions import last_stable_offset, read_all
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.transactions import CALL_SECONDS, FAST_TRANSACTIONS, transactional
from interop_tests.support.wait import despite, until
from interop_tests.support.wire import Wire, batch
from interop_tests.support.worker import Worker

PARTITIONS = 60
SEGMENT = 1 << 20  # the smallest that Kafka allows
BUSY = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "100",
}
# Having begun anew with the bootstrap servers, librdkafka loses sight of the coordinator.
STEADY = {"metadata_recovery_strategy": "none", "reconnect_backoff_max_ms": 200}


@pytest.fixture
def broker(start_broker: StartBroker) -> Broker:
    return start_broker(FAST_GROUPS | FAST_TRANSACTIONS | BUSY)


def write(producer: Producer, topic: str, values: dict[int, str]) -> None:
    for partition, value in values.items():
        producer.produce(topic, value, partition=partition)
    assert producer.flush(CALL_SECONDS) == 0


def patiently(producer: Producer, call: str) -> None:
    """A call that a client has to make again while the broker is away."""
    deadline = time.monotonic() + 60
    while True:
        try:
            getattr(producer, call)(5)
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if not error.retriable() or time.monotonic() > deadline:
                raise
        else:
            return


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
def test_a_transaction_that_was_ending_when_the_broker_died_is_ended_whole(
    broker: Broker, call: str, java: Worker
) -> None:
    topic, name = Topics(broker.bootstrap).create(partitions=PARTITIONS), fresh_name("tx")
    producer = transactional(broker.bootstrap, name, **STEADY)
    chance = random.Random(7)
    wanted: list[str] = []

    for number in range(4):
        producer.begin_transaction()
        write(producer, topic, dict.fromkeys(range(PARTITIONS), str(number)))
        ending = threading.Thread(target=patiently, args=(producer, call))
        ending.start()
        # The moment of death is drawn, so that it falls before, between and after the markers.
        time.sleep(chance.uniform(0, 0.03))
        broker.kill()
        broker.start()
        ending.join()
        wanted += [str(number)] if call == "commit_transaction" else []

    Topics(broker.bootstrap).wait(topic, PARTITIONS)
    assert wait_ended(java, broker.bootstrap, name) == ("CompleteCommit" if wanted else "CompleteAbort")
    assert read_all(broker.bootstrap, topic, PARTITIONS) == dict.fromkeys(range(PARTITIONS), wanted)


def wait_ended(java: Worker, bootstrap: str, name: str) -> str:
    """Until all markers are written; how the transaction ended."""

    def ended() -> str | None:
        state: str = java.call("describe_transaction", bootstrap, transactional_id=name)["state"]
        return state if state.startswith("Complete") else None

    return until(ended, f"{name} is ended", seconds=40) or ""


def test_an_end_that_nobody_asks_about_again_is_all_or_nothing(broker: Broker, java: Worker) -> None:
    topic, name = Topics(broker.bootstrap).create(partitions=PARTITIONS), fresh_name("tx")
    producer = transactional(broker.bootstrap, name, transaction_timeout_ms=5_000)
    producer.begin_transaction()
    write(producer, topic, dict.fromkeys(range(PARTITIONS), "value"))
    described = java.call("describe_transaction", broker.bootstrap, transactional_id=name)

    with Wire(broker.bootstrap) as wire:
        identity = {"producer_id": described["producer_id"], "producer_epoch": described["epoch"]}
        wire.send(EndTxnRequest(transactional_id=name, committed=True, **identity), 4)
        time.sleep(0.004)
        broker.kill()
    broker.start()
    Topics(broker.bootstrap).wait(topic, PARTITIONS)

    # By its commit, or by its time-out.
    whole = ["value"] if wait_ended(java, broker.bootstrap, name) == "CompleteCommit" else []
    assert read_all(broker.bootstrap, topic, PARTITIONS) == dict.fromkeys(range(PARTITIONS), whole)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_an_open_transaction_goes_on_after_a_restart(broker: Broker, end: str) -> None:
    topic = Topics(broker.bootstrap).create()
    kept, dropped = (transactional(broker.bootstrap, fresh_name("tx"), **STEADY) for _ in range(2))
    for producer, value in ((kept, "kept"), (dropped, "dropped")):
        producer.begin_transaction()
        write(producer, topic, {0: value})

    getattr(broker, end)()
    broker.start()
    Topics(broker.bootstrap).wait(topic, 1)
    before = last_stable_offset(broker.bootstrap, topic)
    write(kept, topic, {0: "kept too"})
    patiently(kept, "commit_transaction")
    patiently(dropped, "abort_transaction")
    until(lambda: last_stable_offset(broker.bootstrap, topic) == 5, "both are ended")

    assert before == 0
    assert read_all(broker.bootstrap, topic) == {0: ["kept", "kept too"]}
    assert read_all(broker.bootstrap, topic, committed=False) == {0: ["kept", "dropped", "kept too"]}


def fill(bootstrap: str, topic: str, megabytes: int, key: bytes) -> None:
    with Wire(bootstrap) as wire:
        for _ in range(10 * megabytes):
            assert wire.produce(topic, batch([b"x" * 10_000] * 10, key=key)).error_code == 0


def test_compaction_keeps_off_open_transactions_and_never_brings_back_aborted_ones(broker: Broker) -> None:
    topics = Topics(broker.bootstrap)
    topic = topics.create(cleanup_policy="compact", segment_bytes=SEGMENT, min_cleanable_dirty_ratio=0.01)
    one, two = (transactional(broker.bootstrap, fresh_name("tx")) for _ in range(2))
    for number in range(3):
        one.begin_transaction()
        one.produce(topic, f"dropped {number}", "a", partition=0)
        one.flush(CALL_SECONDS)
        one.abort_transaction(CALL_SECONDS)
        one.begin_transaction()
        one.produce(topic, f"kept {number}", "b", partition=0)
        one.commit_transaction(CALL_SECONDS)
    fill(broker.bootstrap, topic, 2, b"filler")  # Kafka leaves the whole segment alone in which the open one begins
    begun = Confluent().watermarks(broker.bootstrap, topic, 0)[1]
    two.begin_transaction()
    two.produce(topic, "open", "b", partition=0)
    two.flush(CALL_SECONDS)
    fill(broker.bootstrap, topic, 3, b"filler")

    until(
        lambda: "kept 0" not in values(broker.bootstrap, topic), "what is before the open one is compacted", seconds=30
    )
    assert last_stable_offset(broker.bootstrap, topic) == begun
    assert texts(broker.bootstrap, topic) == ["kept 2"]
    assert "open" in values(broker.bootstrap, topic, committed=False)

    two.abort_transaction(CALL_SECONDS)
    fill(broker.bootstrap, topic, 2, b"filler")
    held_back = 300
    until(lambda: len(values(broker.bootstrap, topic)) < held_back, "what was held back is compacted", seconds=30)
    assert texts(broker.bootstrap, topic) == ["kept 2"]


def values(bootstrap: str, topic: str, *, committed: bool = True) -> list[str]:
    return read_all(bootstrap, topic, committed=committed)[0]


def texts(bootstrap: str, topic: str) -> list[str]:
    return [value for value in values(bootstrap, topic) if not value.startswith("x")]


def test_retention_and_open_transactions_leave_a_readable_log(broker: Broker) -> None:
    topic = Topics(broker.bootstrap).create(segment_bytes=SEGMENT, retention_bytes=SEGMENT)
    producer = transactional(broker.bootstrap, fresh_name("tx"))
    producer.begin_transaction()
    write(producer, topic, {0: "early"})
    fill(broker.bootstrap, topic, 4, b"k")
    write(producer, topic, {0: "late"})

    until(lambda: Confluent().watermarks(broker.bootstrap, topic, 0)[0] > 0, "old segments are gone", seconds=20)
    stable = last_stable_offset(broker.bootstrap, topic)
    low, _ = Confluent().watermarks(broker.bootstrap, topic, 0)  # afterwards: more segments may go meanwhile
    assert stable <= low
    assert despite(KafkaException, lambda: committed_from_the_start(broker, topic, seconds=0.5), "it can be read") == []

    producer.commit_transaction(CALL_SECONDS)
    Confluent().produce(broker.bootstrap, topic, [Message(value=b"last")])
    until(lambda: last_stable_offset(broker.bootstrap, topic) > 403, "the marker is written")
    found = despite(KafkaException, lambda: committed_from_the_start(broker, topic), "it can be read")
    assert [record.value for record in found[-2:]] == [b"late", b"last"]


def committed_from_the_start(broker: Broker, topic: str, seconds: float = CALL_SECONDS) -> list[Fetched]:
    """All but the marker. Raises KafkaException where retention takes the start away meanwhile."""
    low, high = Confluent().watermarks(broker.bootstrap, topic, 0)
    wanted = high - low - 1
    return Confluent().consume(
        broker.bootstrap, topic, 0, start=low, count=wanted, seconds=seconds, read_committed=True
    )
