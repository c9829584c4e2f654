"""Queue topics with stock clients: every record is acknowledged by itself, with nothing but headers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as RawMessage
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from interop_tests.support.broker import AnyBroker, Broker, external
from interop_tests.support.clients import kcat
from interop_tests.support.clients.base import Fetched, Message
from interop_tests.support.clients.confluent import Confluent, consumer, fetched, producer
from interop_tests.support.clients.kcat import Kcat
from interop_tests.support.served import ServedBroker
from interop_tests.support.topics import Topics
from interop_tests.support.wait import until


@pytest.fixture(autouse=True)
def ours(broker: AnyBroker) -> None:
    if not broker.is_ours:
        pytest.skip("queue topics are kompat's")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    """A broker that may be killed; each test has topics of its own there."""
    if external() is not None:
        pytest.skip("the broker under test is not ours to restart")
    running = ServedBroker(tmp_path_factory.mktemp("served"))
    try:
        running.start()
        yield running
    finally:
        running.close()


def orders_and_queue(topics: Topics, partitions: int = 1, **settings: object) -> tuple[str, str]:
    orders = topics.create("orders", partitions)
    queue = topics.create("queue", partitions, kompat_queue_source=orders, **settings)
    return orders, queue


def send(bootstrap: str, topic: str, *values: str, partitions: int = 1) -> None:
    messages = [
        Message(key=value.encode(), value=value.encode(), partition=place % partitions)
        for place, value in enumerate(values)
    ]
    Confluent().produce(bootstrap, topic, messages)


def header(record: Fetched, name: str) -> str:
    return (dict(record.headers)[name] or b"").decode()


def count(record: Fetched) -> int:
    return int(header(record, "kompat-delivery-count"))


def text(record: Fetched) -> str:
    return (record.value or b"").decode()


class Worker:
    """A consumer of a queue with confluent-kafka, and the producer that it acknowledges with."""

    def __init__(self, bootstrap: str, queue: str, *, in_group: bool = True) -> None:
        self.queue = queue
        self.consumer: Consumer = consumer(
            bootstrap,
            **{"group.id": f"{queue}-group", "auto.offset.reset": "earliest", "reconnect.backoff.max.ms": 200},
        )
        if in_group:
            self.consumer.subscribe([queue])
        else:
            self.consumer.assign([TopicPartition(queue, 0, OFFSET_BEGINNING)])
        self.producer: Producer = producer(bootstrap, **{"message.timeout.ms": 20_000})

    def poll(self, seconds: float = 0.2) -> Fetched | None:
        message = self.consumer.poll(seconds)
        return None if message is None or message.error() is not None else fetched(message)

    def take(self, wanted: int, seconds: float = 25.0) -> list[Fetched]:
        found: list[Fetched] = []
        deadline = time.monotonic() + seconds
        while len(found) < wanted and time.monotonic() < deadline:
            record = self.poll()
            if record is not None:
                found.append(record)
        return found

    def say(self, kind: str, *records: Fetched) -> list[KafkaError | int]:
        """For each, the offset of its acknowledgement, or why it was refused."""
        outcomes: dict[int, KafkaError | int] = {}

        def report(place: int) -> Callable[[KafkaError | None, RawMessage], None]:
            def told(error: KafkaError | None, message: RawMessage) -> None:
                outcomes[place] = error if error is not None else message.offset() or 0

            return told

        for place, record in enumerate(records):
            headers: dict[str, str | bytes | None] = {
                "kompat-ack": kind,
                "kompat-ack-id": header(record, "kompat-ack-id"),
            }
            self.producer.produce(self.queue, b"", headers=headers, on_delivery=report(place))
            self.producer.flush(30)  # each by itself: one that is refused takes its batch along
        return [outcomes[place] for place in range(len(records))]

    def accept(self, *records: Fetched) -> None:
        for outcome in self.say("accept", *records):
            assert isinstance(outcome, int), outcome

    def close(self) -> None:
        self.consumer.close()


# -- kcat --------------------------------------------------------------------------------------------------------------
def kcat_take(bootstrap: str, queue: str, wanted: int) -> list[tuple[str, str, int]]:
    """Value, acknowledgement id and delivery count of so many deliveries."""
    done = kcat.run("-C", "-b", bootstrap, "-t", queue, "-c", str(wanted), "-f", "%s %h\n")
    found = []
    for line in done.stdout.decode().splitlines():
        value, _, told = line.partition(" ")
        headers = dict(part.split("=", 1) for part in told.split(","))
        found.append((value, headers["kompat-ack-id"], int(headers["kompat-delivery-count"])))
    return found


def kcat_say(bootstrap: str, queue: str, kind: str, ack_id: str) -> str:
    """What kcat complains about, if it does."""
    done = kcat.run(
        *("-P", "-b", bootstrap, "-t", queue, "-H", f"kompat-ack={kind}", "-H", f"kompat-ack-id={ack_id}"), stdin=b"x"
    )
    return "" if done.returncode == 0 else done.stderr.decode()


def test_kcat_does_the_whole_round_trip(bootstrap: str, topics: Topics) -> None:
    orders, queue = orders_and_queue(topics, kompat_queue_lock_ms=1500)
    Kcat().produce(bootstrap, orders, [Message(key=b"k", value=value) for value in (b"a", b"b", b"c")])

    a, b, c = kcat_take(bootstrap, queue, 3)
    assert [(value, deliveries) for value, _, deliveries in (a, b, c)] == [("a", 1), ("b", 1), ("c", 1)]
    assert kcat_say(bootstrap, queue, "accept", a[1]) == ""
    assert kcat_say(bootstrap, queue, "reject", b[1]) == ""
    [again] = until(
        lambda: [each for each in kcat_take(bootstrap, queue, 1) if each[2] == 2], "the third comes again", seconds=20
    )
    assert again[0] == "c"
    assert "validate record" in kcat_say(bootstrap, queue, "accept", c[1])
    assert kcat_say(bootstrap, queue, "accept", again[1]) == ""
    [letter] = Confluent().consume(bootstrap, f"dlq.{orders}", 0, start=0, count=1)
    assert (letter.value, header(letter, "__dlq.errors.group")) == (b"b", queue)


def test_what_is_no_acknowledgement_is_refused(bootstrap: str, topics: Topics) -> None:
    _, queue = orders_and_queue(topics)
    done = kcat.run("-P", "-b", bootstrap, "-t", queue, stdin=b"hello")
    assert b"validate record" in done.stderr
    assert "validate record" in kcat_say(bootstrap, queue, "done", "x")
    assert Confluent().watermarks(bootstrap, queue, 0) == (0, 0)


# -- consumers in groups -----------------------------------------------------------------------------------------------
def test_confluent_consumers_work_off_a_queue_and_each_record_once(bootstrap: str, topics: Topics) -> None:
    orders, queue = orders_and_queue(topics, partitions=2)
    wanted = {f"{i}" for i in range(60)}
    send(bootstrap, orders, *wanted, partitions=2)
    workers = [Worker(bootstrap, queue) for _ in range(2)]
    seen: list[str] = []
    deadline = time.monotonic() + 40
    while len(seen) < len(wanted) and time.monotonic() < deadline:
        for worker in workers:
            record = worker.poll(0.05)
            if record is not None:
                worker.accept(record)
                seen.append(text(record))
    for worker in workers:
        worker.close()
    assert sorted(seen) == sorted(wanted)
    until(lambda: _is_tidy(bootstrap, queue, 2), "the log forgets what was accepted")


def _is_tidy(bootstrap: str, queue: str, partitions: int) -> bool:
    """From the beginning, there is nothing to be read."""
    marks = [Confluent().watermarks(bootstrap, queue, each) for each in range(partitions)]
    return all(low > 0 for low, _ in marks)


def test_kafka_python_works_off_a_queue(bootstrap: str, topics: Topics) -> None:
    orders, queue = orders_and_queue(topics)
    wanted = [f"{i}" for i in range(30)]
    send(bootstrap, orders, *wanted)
    reader = KafkaConsumer(
        queue, bootstrap_servers=bootstrap, group_id=f"{queue}-g", auto_offset_reset="earliest", fetch_max_wait_ms=100
    )
    sender = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
    seen: list[str] = []
    deadline = time.monotonic() + 40
    while len(seen) < len(wanted) and time.monotonic() < deadline:
        for records in reader.poll(200).values():
            for record in records:
                ack_id = dict(record.headers)["kompat-ack-id"]
                sender.send(queue, b"", headers=[("kompat-ack", b"accept"), ("kompat-ack-id", ack_id)]).get(20)
                seen.append(record.value.decode())
    with pytest.raises(KafkaPythonError, match=r"(?i)record"):
        sender.send(queue, b"plain").get(20)
    reader.close()
    sender.close()
    assert seen == wanted


def test_what_a_consumer_that_died_had_comes_to_another(bootstrap: str, topics: Topics) -> None:
    orders, queue = orders_and_queue(topics, kompat_queue_lock_ms=2000)
    send(bootstrap, orders, "a", "b", "c")
    dead = kcat_take(bootstrap, queue, 3)  # and ends without a word
    assert sorted(value for value, _, _ in dead) == ["a", "b", "c"]
    worker = Worker(bootstrap, queue)
    found: dict[str, int] = {}

    def drained() -> bool:
        record = worker.poll()
        if record is not None and count(record) == 2:  # else the log still has the first delivery
            worker.accept(record)
            found[text(record)] = count(record)
        return len(found) == 3

    until(drained, "all came again", seconds=30)
    worker.close()
    assert found == {"a": 2, "b": 2, "c": 2}


# -- dead letters ------------------------------------------------------------------------------------------------------
def letters(broker: Broker, topic: str) -> list[str]:
    if topic not in Topics(broker.bootstrap).names():
        return []
    low, high = Confluent().watermarks(broker.bootstrap, topic, 0)
    found = Confluent().consume(broker.bootstrap, topic, 0, start=low, count=high - low)
    return sorted(text(each) for each in found)  # each is written when it can be


def test_a_poison_record_ends_as_a_dead_letter_and_is_redriven(served: ServedBroker) -> None:
    topics = Topics(served.bootstrap)
    orders, queue = orders_and_queue(topics, kompat_queue_lock_ms=400, kompat_queue_max_deliveries=2)
    send(served.bootstrap, orders, "good", "poison")
    worker = Worker(served.bootstrap, queue)
    deliveries = []

    def buried() -> bool:
        record = worker.poll(0.1)
        if record is not None:
            deliveries.append((text(record), count(record)))
            if text(record) == "good":
                worker.accept(record)
        return letters(served, f"dlq.{orders}") == ["poison"]

    until(buried, "the poison is a dead letter", seconds=30)
    assert deliveries == [("good", 1), ("poison", 1), ("poison", 2)]
    assert "count=1" in served.call("dead_letters", "redrive", f"dlq.{orders}")
    assert "count=0" in served.call("dead_letters", "redrive", f"dlq.{orders}")
    [again] = worker.take(1)
    worker.accept(again)
    worker.close()
    assert (text(again), count(again), header(again, "kompat-redrive-count")) == ("poison", 1, "1")


# -- a broker that dies ------------------------------------------------------------------------------------------------
STAGES = ("delivered", "accepted", "rejected", "redriven")


@pytest.mark.parametrize("stage", STAGES)
def test_a_kill_at_any_stage_loses_and_doubles_nothing(served: ServedBroker, stage: str) -> None:
    orders, queue = orders_and_queue(Topics(served.bootstrap), kompat_queue_lock_ms=60_000)
    values = [f"{i:02}" for i in range(12)]
    first, rest, bad = values[:4], values[4:8], values[8:]
    send(served.bootstrap, orders, *values)
    worker = Worker(served.bootstrap, queue, in_group=False)
    desk = Desk(worker)

    def reached(name: str) -> None:
        if name == stage:
            served.kill()
            served.start()

    until(lambda: desk.look() >= set(values), "all are delivered", seconds=20)
    reached("delivered")
    for value in first:
        desk.say("accept", value)
    reached("accepted")
    for value in bad:
        desk.say("reject", value)
    reached("rejected")
    dead_letters = f"dlq.{orders}"
    until(lambda: len(letters(served, dead_letters)) >= len(bad), "the dead letters are written", seconds=20)
    assert f"count={len(bad)}" in served.call("dead_letters", "redrive", dead_letters)
    reached("redriven")
    until(lambda: desk.look() and desk.redriven == set(bad), "what was redriven is delivered", seconds=30)
    for value in (*rest, *bad):
        desk.say("accept", value)
    surplus = worker.take(1, seconds=1)
    worker.close()

    assert surplus == []
    assert desk.offered_after_its_end == []
    assert letters(served, dead_letters) == bad
    assert Confluent().watermarks(served.bootstrap, orders, 0) == (0, len(values) + len(bad))
    assert "count=0" in served.call("dead_letters", "redrive", dead_letters)
    assert "available=0, in_flight=0" in served.call("queues", "statistics", queue, orders)


class Desk:
    """What a worker has in hand: the newest delivery of each record, and what it has said of them."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._newest: dict[str, Fetched] = {}
        self._ends: dict[str, int] = {}  # the offsets of acknowledgements that counted
        self.redriven: set[str] = set()
        self.offered_after_its_end: list[str] = []

    def look(self) -> set[str]:
        while (record := self._worker.poll(0.1)) is not None:
            value = text(record)
            if "kompat-redrive-count" in dict(record.headers):
                self.redriven.add(value)
            elif record.offset > self._ends.get(value, record.offset):
                self.offered_after_its_end.append(value)
            self._newest[value] = record
        return set(self._newest)

    def say(self, kind: str, value: str) -> None:
        """Until it counts: after a restart the record may have been delivered anew."""
        deadline = time.monotonic() + 40
        while True:
            [outcome] = self._worker.say(kind, self._newest[value])
            if isinstance(outcome, int):
                self._ends.setdefault(value, outcome)
                return
            assert time.monotonic() < deadline, outcome
            self.look()


def test_kills_in_the_middle_of_the_work_lose_and_double_nothing(served: ServedBroker) -> None:
    """No delivery comes after the acknowledgement that its producer was told of."""
    orders, queue = orders_and_queue(
        Topics(served.bootstrap), kompat_queue_lock_ms=60_000, kompat_queue_max_in_flight=20
    )
    wanted = {f"{i}" for i in range(150)}
    send(served.bootstrap, orders, *wanted)
    worker = Worker(served.bootstrap, queue, in_group=False)
    ends: dict[str, int] = {}
    wrong: list[str] = []
    kills = [30, 75, 120]
    deadline = time.monotonic() + 90
    while len(ends) < len(wanted) and time.monotonic() < deadline:
        record = worker.poll(0.1)
        if record is None:
            continue
        if record.offset > ends.get(text(record), record.offset):
            wrong.append(text(record))
        [outcome] = worker.say("accept", record)
        if isinstance(outcome, int):  # else it has been delivered anew
            ends.setdefault(text(record), outcome)
        if kills and len(ends) >= kills[0]:
            kills.pop(0)
            served.kill()
            served.start()
    surplus = worker.take(1, seconds=0.5)
    worker.close()

    assert (set(ends), wrong, surplus, kills) == (wanted, [], [], [])
    assert "available=0, in_flight=0" in served.call("queues", "statistics", queue, orders)
