"""Records that stock clients send with a delay come to stock consumers at their time, once."""

import json
import subprocess
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import AnyBroker, Broker
from interop_tests.support.clients.base import Client, Fetched, Message
from interop_tests.support.clients.confluent import Confluent, consumer, fetched, producer
from interop_tests.support.clients.kafka_python import KafkaPython
from interop_tests.support.clients.kcat import Kcat
from interop_tests.support.topics import Topics

EARLY_MS = 5  # clocks are read by different processes
LATE_MS = 15_000  # on a machine that is busy with other tests


@pytest.fixture(autouse=True)
def ours(broker: AnyBroker) -> None:
    if not broker.is_ours:
        pytest.skip("delays are kompat's")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def delayed(value: bytes, ms: int, *more: tuple[str, bytes]) -> Message:
    return Message(key=b"k", value=value, headers=(("kompat-delay-ms", str(ms).encode()), *more))


def poll(member: Consumer, count: int, seconds: float = 20.0) -> list[tuple[int, Fetched]]:
    """So many records, and when each came."""
    found: list[tuple[int, Fetched]] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        message = member.poll(0.1)
        if message is not None:
            assert message.error() is None
            found.append((now_ms(), fetched(message)))
    return found


def in_group(bootstrap: str, topic: str, **settings: object) -> Consumer:
    member = consumer(bootstrap, **{"group.id": f"{topic}-group", "auto.offset.reset": "earliest", **settings})
    member.subscribe([topic])
    return member


def test_kcat_delays_and_a_group_sees_it_at_its_time(bootstrap: str, topics: Topics) -> None:
    topic = topics.create()
    member = in_group(bootstrap, topic)
    Kcat().produce(bootstrap, topic, [Message(key=b"k", value=b"warm")])
    [(_, warm)] = poll(member, 1)

    sent = now_ms()
    Kcat().produce(bootstrap, topic, [delayed(b"later", 3000)])
    acknowledged = now_ms()
    Kcat().produce(bootstrap, topic, [Message(key=b"k", value=b"at once")])
    found = poll(member, 2)
    rest = poll(member, 1, seconds=1)
    member.close()

    assert (warm.value, [record.value for _, record in found], rest) == (b"warm", [b"at once", b"later"], [])
    came, later = found[1]
    assert sent + 3000 - EARLY_MS <= came <= acknowledged + 3000 + LATE_MS
    assert sent + 3000 <= later.timestamp <= acknowledged + 3000
    told = dict(later.headers)
    assert told["kompat-original-offset"] == b"1"
    assert sent - EARLY_MS <= int(told["kompat-original-timestamp"] or b"") <= acknowledged


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_client_reads_a_log_with_delayed_and_other_records(
    bootstrap: str, topics: Topics, client: Client, codec: str
) -> None:
    topic = topics.create()
    plain = [Message(key=b"k", value=f"plain{i}".encode()) for i in range(4)]
    late = [delayed(f"late{i}".encode(), 300) for i in range(4)]
    mixed = [message for pair in zip(plain, late, strict=True) for message in pair]
    offsets = Confluent().produce(bootstrap, topic, mixed, codec=codec, idempotent=True)
    assert sorted(offsets) == list(range(8))

    found = client.consume(bootstrap, topic, 0, start=0, count=8)

    assert [record.value for record in found] == [m.value for m in plain] + [m.value for m in late]
    assert [record.offset for record in found] == [0, 2, 4, 6, 8, 9, 10, 11]


def test_a_reader_at_the_end_gets_past_slots(bootstrap: str, topics: Topics, client: Client) -> None:
    topic = topics.create()
    Confluent().produce(bootstrap, topic, [delayed(b"late", 1200) for _ in range(3)])

    found = client.consume(bootstrap, topic, 0, start=0, count=3)

    assert [(record.offset, record.value) for record in found] == [(3 + i, b"late") for i in range(3)]


def test_a_reader_that_finds_slot_after_slot_is_told_of_no_error(bootstrap: str, topics: Topics) -> None:
    """librdkafka takes an answer without a record for a sign that it asked for too little, and complains after the tenth."""
    topic = topics.create()
    reader, sent = consumer(bootstrap, **{"fetch.wait.max.ms": 10}), 15
    reader.assign([TopicPartition(topic, 0, 0)])
    for number in range(sent):
        Confluent().produce(bootstrap, topic, [delayed(b"late", 3_600_000)])
        deadline = time.monotonic() + 20
        while reader.position([TopicPartition(topic, 0)])[0].offset <= number and time.monotonic() < deadline:
            message = reader.poll(0.05)
            assert message is None, message.error()
            if reader.get_watermark_offsets(TopicPartition(topic, 0), cached=True)[1] > number:
                break  # its answer has come, with a slot and nothing else
    Confluent().produce(bootstrap, topic, [Message(value=b"now")])

    assert [(record.offset, record.value) for _, record in poll(reader, 1)] == [(sent, b"now")]


def test_a_wrong_header_is_told_to_the_producer(bootstrap: str, topics: Topics) -> None:
    topic = topics.create()
    done = subprocess.run(
        ["kcat", "-P", "-b", bootstrap, "-t", topic, "-p", "0", "-H", "kompat-delay-ms=soon"],
        input=b"v",
        capture_output=True,
        timeout=30,
        check=False,
    )

    assert b"validate record" in done.stderr
    assert Confluent().watermarks(bootstrap, topic, 0) == (0, 0)


def test_a_schedule_id_replaces_what_waits(bootstrap: str, topics: Topics) -> None:
    topic = topics.create()
    schedule = ("kompat-schedule-id", b"reminder")
    Kcat().produce(bootstrap, topic, [delayed(b"old", 3000, schedule)])
    Kcat().produce(bootstrap, topic, [delayed(b"new", 3000, schedule)])
    Kcat().produce(bootstrap, topic, [delayed(b"last", 3500)])

    found = KafkaPython().consume(bootstrap, topic, 0, start=0, count=2)

    assert [record.value for record in found] == [b"new", b"last"]


def test_a_message_id_is_taken_once(bootstrap: str, topics: Topics) -> None:
    topic = topics.create()
    for value in (b"first", b"again", b"third"):
        message_id = b"m" if value != b"third" else b"n"
        Kcat().produce(bootstrap, topic, [Message(key=b"k", value=value, headers=(("Nats-Msg-Id", message_id),))])

    found = KafkaPython().consume(bootstrap, topic, 0, start=0, count=2)

    assert [(record.offset, record.value) for record in found] == [(0, b"first"), (2, b"third")]


@pytest.mark.parametrize(("commits", "expected"), [(True, b"first"), (False, b"second")])
def test_a_message_id_in_two_open_transactions_and_a_plain_record_is_taken_once(
    bootstrap: str, topics: Topics, commits: bool, expected: bytes
) -> None:
    topic, headers = topics.create(), {"kompat-msg-id": "m"}
    senders: list[Producer] = [producer(bootstrap, **{"transactional.id": f"{topic}-{n}"}) for n in range(2)]
    for sender, value in zip(senders, (b"first", b"second"), strict=True):
        sender.init_transactions(20)
        sender.begin_transaction()
        sender.produce(topic, value, key=b"k", partition=0, headers=headers)
        assert sender.flush(20) == 0
    Kcat().produce(bootstrap, topic, [Message(key=b"k", value=b"plain", headers=(("kompat-msg-id", b"m"),))])
    senders[1].commit_transaction(20)
    if commits:
        senders[0].commit_transaction(20)
    else:
        senders[0].abort_transaction(20)
    Kcat().produce(bootstrap, topic, [Message(key=b"k", value=b"another")])

    found = Confluent().consume(bootstrap, topic, 0, start=0, count=2, read_committed=True)

    assert {record.value for record in found} == {expected, b"another"}


def test_a_transaction_decides_on_its_delayed_records(bootstrap: str, topics: Topics) -> None:
    topic = topics.create()
    sender: Producer = producer(bootstrap, **{"transactional.id": topic})
    sender.init_transactions(20)
    for value, commits in ((b"aborted", False), (b"committed", True)):
        sender.begin_transaction()
        sender.produce(topic, value, key=b"k", partition=0, headers={"kompat-delay-ms": "500"})
        sender.produce(topic, b"direct " + value, key=b"k", partition=0)
        if commits:
            sender.commit_transaction(20)
        else:
            sender.flush(20)
            sender.abort_transaction(20)
    Kcat().produce(bootstrap, topic, [delayed(b"after", 1500)])

    found = Confluent().consume(bootstrap, topic, 0, start=0, count=3, read_committed=True)

    assert [record.value for record in found] == [b"direct committed", b"committed", b"after"]


def test_a_topic_may_do_without(bootstrap: str, topics: Topics) -> None:
    topic = topics.create(kompat_extensions_enable="false")
    Kcat().produce(bootstrap, topic, [delayed(b"now", 3_600_000)])

    [record] = KafkaPython().consume(bootstrap, topic, 0, start=0, count=1)

    assert (record.offset, record.value) == (0, b"now")


# -- a broker that dies ------------------------------------------------------------------------------------------------
def kill_and_start(broker: Broker) -> None:
    broker.kill()
    broker.start()


@pytest.mark.parametrize(
    ("moments", "fsync"), [((0.0,), "never"), ((1.3, 1.6, 2.0), "never"), ((1.5, 2.5), "always"), ((3.5,), "never")]
)
def test_every_delayed_record_comes_once_through_kills(
    start_broker: StartBroker, moments: tuple[float, ...], fsync: str
) -> None:
    """Before any is due, while they are delivered, and when the broker is down at the time."""
    broker = start_broker({"kompat.fsync": fsync})
    topic = Topics(broker.bootstrap).create(partitions=3)
    count, begun = 600, now_ms()
    messages = [
        Message(
            key=b"k",
            value=str(i).encode(),
            partition=i % 3,
            headers=(("kompat-deliver-at", str(begun + 1500 + 3 * i).encode()),),
        )
        for i in range(count)
    ]
    Confluent().produce(broker.bootstrap, topic, messages, idempotent=True)
    for moment in moments:
        time.sleep(max(0.0, begun / 1000 + moment - time.time()))
        kill_and_start(broker)

    member = in_group(broker.bootstrap, topic, **{"fetch.wait.max.ms": 50})
    found = poll(member, count, seconds=60)
    rest = poll(member, 1, seconds=1)
    member.close()

    assert rest == []
    values = [int(record.value or b"") for _, record in found]
    assert sorted(values) == list(range(count))
    for partition in range(3):
        own = [value for value in values if value % 3 == partition]
        assert own == sorted(own)
    assert all(came >= record.timestamp - EARLY_MS for came, record in found)


def test_groups_of_every_python_client_see_each_record_once(bootstrap: str, topics: Topics) -> None:
    topic = topics.create()
    Kcat().produce(bootstrap, topic, [delayed(str(i).encode(), 700) for i in range(10)])

    readers: list[Callable[[], list[Fetched]]] = [
        lambda: Confluent().consume(bootstrap, topic, 0, start=0, count=10),
        lambda: KafkaPython().consume(bootstrap, topic, 0, start=0, count=10),
        lambda: Kcat().consume(bootstrap, topic, 0, start=0, count=10),
    ]
    for read in readers:
        assert [record.value for record in read()] == [str(i).encode() for i in range(10)]


def test_one_dies_in_the_middle_of_ten_thousand(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = Topics(broker.bootstrap).create()
    count, due = 10_000, now_ms() + 6000
    sender = producer(broker.bootstrap, **{"linger.ms": 20})
    for i in range(count):
        sender.produce(topic, str(i).encode(), partition=0, headers={"kompat-deliver-at": str(due)})
        sender.poll(0)
    assert sender.flush(30) == 0
    time.sleep(max(0.0, due / 1000 + 0.03 - time.time()))
    kill_and_start(broker)

    found = Confluent().consume(broker.bootstrap, topic, 0, start=0, count=count, seconds=60)

    assert [int(record.value or b"") for record in found] == list(range(count))
    assert json.dumps(sorted({record.timestamp for record in found})) == json.dumps([due])


def test_a_stock_consumer_reads_many_large_records_that_compress_well_and_are_due_at_once(
    bootstrap: str, topics: Topics
) -> None:
    """Together they are 113 MB, which no client unpacks as one batch; compressed, they are some kilobytes."""
    topic, count, due = topics.create(), 450, now_ms() + 4000
    row = json.dumps({"name": "the same again", "amount": 1}).encode()
    values = [b"[%d, " % number + b", ".join([row] * (250_000 // (len(row) + 2))) + b"]" for number in range(count)]
    sender = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    for value in values:
        sender.produce(topic, value, headers=[("kompat-deliver-at", str(due).encode())])
        sender.poll(0)
    sender.produce(topic, b"last", headers=[("kompat-deliver-at", str(due + 1).encode())])
    assert sender.flush(30) == 0

    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    reader.subscribe([topic])
    try:
        found = [value for _, each in poll(reader, count + 1, seconds=60) if (value := each.value) is not None]
    finally:
        reader.close()
    assert found == [*values, b"last"]
