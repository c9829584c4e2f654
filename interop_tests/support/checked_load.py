"""Clients that keep a cluster busy, and write down all that they do and are told: idempotent producers, transactions, groups."""

import contextlib
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from types import TracebackType

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from interop_tests.support.clients.confluent import consumer, producer
from interop_tests.support.groups import fresh_group
from interop_tests.support.history import Fate, History, Outcome, Place, Read, Record, Sent

PATIENCE = 60  # seconds: longer than any fault lasts
QUEUED_AT_MOST = 200
# A broker that does not answer (it is paused, say) is given up sooner than after the minute that is usual.
FAST_READS = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "socket.timeout.ms": 3000}
FAST = {**FAST_READS, "retry.backoff.ms": 20, "request.timeout.ms": 3000}
# What the clients themselves tell of a run, on stderr: KOMPAT_FAULTS_DEBUG=eos,topic,cgrp,fetch (librdkafka's `debug`).
DEBUG = os.environ.get("KOMPAT_FAULTS_DEBUG", "")
TALKS = {"debug": DEBUG, "log_level": 7} if DEBUG else {}
LARGE_EVERY, LARGE_BYTES = 40, 20_000  # small and large batches are stored in different places


def value_of(record: Record) -> bytes:
    padding = b"#" * LARGE_BYTES if record.number % LARGE_EVERY == 0 else b""
    return b"%s:%d:%s" % (record.producer.encode(), record.number, padding)


def record_of(value: bytes) -> Record:
    name, number, _ = value.split(b":", 2)
    return Record(name.decode(), int(number))


class Client(ABC):
    """One client in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, history: History, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.places = [Place(topic, index) for index in range(partitions)]
        self.history = history
        self.done = 0  # records of which it knows that all went well
        self.trouble: BaseException | None = None
        self.last_error = ""  # which it has come over
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    @property
    def client_settings(self) -> dict[str, object]:
        """So that brokers, and its own logs, tell who it is."""
        return {"client.id": self.name, **TALKS}

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"{self.name} hangs"
        if self.trouble is not None:
            raise AssertionError(f"{self.name} has failed") from self.trouble

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(1)

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
            self.trouble = error

    @abstractmethod
    def _run(self) -> None: ...


class Writer(Client):
    """Idempotent, over all partitions; no record of it may fail."""

    def __init__(self, *args: object, pause: float = 0.004) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._pause = pause
        self.failures: list[str] = []

    def _run(self) -> None:
        settings = {"enable.idempotence": True, "batch.num.messages": 20, "message.timeout.ms": PATIENCE * 1000}
        opened = producer(self.bootstrap, **settings, **FAST, **self.client_settings)
        while not self._stop.wait(self._pause):
            opened.poll(0)
            if len(opened) < QUEUED_AT_MOST:
                self._send(opened, random.choice(self.places))
        left = opened.flush(PATIENCE)
        assert left == 0, f"{left} records were neither acknowledged nor refused"

    def _send(self, opened: Producer, place: Place) -> None:
        sent = self.history.send(place, self.name)
        opened.produce(
            place.topic,
            value_of(sent.record),
            partition=place.partition,
            on_delivery=lambda error, message: self._told(sent, error, message),
        )

    def _told(self, sent: Sent, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            sent.told(Outcome.FAILED)
            self.failures.append(f"{sent.record}: {error.str()}")
            return
        sent.told(Outcome.ACKNOWLEDGED, message.offset())
        self.done += 1


class Transactor(Client):
    """One transaction after the other, each over some partitions; of some it thinks better."""

    def __init__(self, *args: object, seed: int) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._dice = random.Random(seed)
        self._number = 0
        self.restarts = 0

    def _run(self) -> None:
        while not self._stop.is_set():
            # A producer that cannot go on (its answer was lost for too long, say) is replaced by a new one of its name.
            try:
                self._run_one()
            except KafkaException as error:
                self.last_error = str(error)
            self.restarts += 1

    def _run_one(self) -> None:
        opened = producer(
            self.bootstrap,
            **{"transactional.id": self.name, "transaction.timeout.ms": 20_000, "message.timeout.ms": 20_000},
            **FAST,
            **self.client_settings,
        )
        self.last_error = "beginning anew"
        _again(lambda: opened.init_transactions(10))
        self.last_error = ""
        while not self._stop.is_set():
            self._transact(opened)

    def _transact(self, opened: Producer) -> None:
        self._number += 1
        self._decided(Fate.UNKNOWN)
        opened.begin_transaction()
        places = self._dice.sample(self.places, self._dice.randint(1, len(self.places)))
        for place in places:
            sent = self.history.send(place, self.name, self._number)
            opened.produce(place.topic, value_of(sent.record), partition=place.partition, on_delivery=_note(sent))
        if self._dice.random() < 0.2:
            opened.flush(5)
            _again(lambda: opened.abort_transaction(10))
            self._decided(Fate.ABORTED)
            return
        try:
            _again(lambda: opened.commit_transaction(10))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _again(lambda: opened.abort_transaction(10))
            self._decided(Fate.ABORTED)
        else:
            self._decided(Fate.COMMITTED)
            self.done += len(places)

    def _decided(self, fate: Fate) -> None:
        self.history.decide(self.name, self._number, fate)


def _note(sent: Sent):  # type: ignore[no-untyped-def]
    def told(error: KafkaError | None, message: Message) -> None:
        if error is None:
            sent.told(Outcome.ACKNOWLEDGED, message.offset())
        else:
            sent.told(Outcome.FAILED)

    return told


def _again(step) -> None:  # type: ignore[no-untyped-def]
    """As the client's manual has it: what may be tried again is."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            step()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return


class Member(Client):
    """Of a group; commits what it has been given. Reads what is committed only."""

    def __init__(self, *args: object, group: str, protocol: str = "classic") -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._group = group
        self._settings: dict[str, object] = {"group.protocol": protocol}
        if protocol == "classic":
            self._settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        self._sessions = 0
        self._positions: dict[Place, str] = {}  # as which reader it is there

    def _run(self) -> None:
        opened = consumer(
            self.bootstrap,
            **{"group.id": self._group, "auto.offset.reset": "error", "isolation.level": "read_committed"},
            **self._settings,
            **FAST_READS,
            **self.client_settings,
        )
        opened.subscribe([self.places[0].topic], on_assign=self._assigned)
        while not self._stop.is_set():
            messages = opened.consume(100, 0.1)
            for message in messages:
                if message.error() is None:
                    self._read(message)
                else:
                    self._look_at(message.error())
            if messages:
                with contextlib.suppress(KafkaException):
                    opened.commit(asynchronous=True)
        opened.close()

    def _look_at(self, error: KafkaError) -> None:
        self.last_error = str(error)
        assert error.code() != KafkaError._AUTO_OFFSET_RESET, f"{self.name} is not let go on where it stood: {error}"

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._begin(Place(each.topic, each.partition))

    def _begin(self, place: Place) -> None:
        self._sessions += 1
        self._positions[place] = f"{self._group}/{self.name}/{self._sessions}"

    def _read(self, message: Message) -> None:
        place = Place(message.topic(), message.partition())
        reader = self._positions[place]
        self.history.reads[reader, place].append(Read(message.offset(), record_of(message.value())))
        self.done += 1


class Observer(Client):
    """Asks for the ends of partitions again and again, whoever leads them.

    What a librdkafka consumer tells of them without asking is not to be relied on: it also takes it from a late answer of a broker
    that has led the partition before, whose records it leaves aside (rdkafka_fetcher.c).
    """

    def _run(self) -> None:
        opened = self._open()
        while not self._stop.wait(0.05):
            place = random.choice(self.places)
            asked = opened.list_offsets({TopicPartition(*place): OffsetSpec.latest()}, request_timeout=3)
            try:
                high = next(iter(asked.values())).result(PATIENCE).offset
            except KafkaException as error:  # nobody may be there to ask
                self.last_error = f"{place}: {error}"
                high = -1
            if high >= 0:
                self.history.watermarks[self.name, place].append(high)
                self.done += 1
            else:
                opened = self._open()  # this kind of client remembers for minutes who has led, and asks nobody else

    def _open(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **FAST_READS})


class CheckedLoad:
    """All of them at once, on one topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, seed: int) -> None:
        self.history = History()
        common = (bootstrap, topic, partitions, self.history)
        self._places = [Place(topic, index) for index in range(partitions)]
        self._bootstrap = bootstrap
        self.writers = [Writer(*common, f"writer-{number}") for number in (1, 2)]
        self.transactors = [Transactor(*common, f"transactor-{number}", seed=seed + number) for number in (1, 2)]
        groups = {protocol: fresh_group() for protocol in ("classic", "consumer")}
        self.members = [
            Member(*common, f"{protocol}-{number}", group=group, protocol=protocol)
            for protocol, group in groups.items()
            for number in (1, 2)
        ]
        self.groups = dict.fromkeys(groups.values(), topic)
        self.observer = Observer(*common, "observer")

    @property
    def clients(self) -> list[Client]:
        return [*self.writers, *self.transactors, *self.members, self.observer]

    @property
    def busy(self) -> list[Client]:
        """Those that always get on, if they can; a group may give all partitions to one of its members."""
        return [*self.writers, *self.transactors, self.observer]

    def __enter__(self) -> "CheckedLoad":
        for group in self.groups:
            begin_at_zero(self._bootstrap, group, self._places)
        for client in self.clients:
            client.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Whoever goes before `finish` has found what it was looking for; clients that hang are left to themselves."""
        for client in self.clients:
            client.leave()

    def progress(self) -> dict[str, int]:
        return {client.name: client.done for client in self.clients}

    def wait_for(self, clients: list[Client], records: int, *, seconds: float = 60.0) -> str:
        """Until each of them has got so much further; who was the last."""
        last = ""
        goals = [(client, client.done + records) for client in clients]
        deadline = time.monotonic() + seconds
        while waiting := [
            f"{client.name} at {client.done} of {goal} {client.last_error}"
            for client, goal in goals
            if client.done < goal
        ]:
            last = waiting[0].partition(" ")[0]
            assert time.monotonic() < deadline, waiting
            assert all(client.trouble is None for client in self.clients), [c.trouble for c in self.clients]
            time.sleep(0.01)
        return last

    def finish(self) -> dict[Place, list[Read]]:
        """Stop sending, let the groups read all there is, and read everything once more."""
        for client in (*self.writers, *self.transactors):
            client.finish()
        logs = read_everything(self._bootstrap, self._places)
        self._wait_delivered(logs)
        for client in (*self.members, self.observer):
            client.finish()
        self.history.groups.update(self.groups)
        return logs

    def _wait_delivered(self, logs: dict[Place, list[Read]]) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:  # who has not read all by then is objected to
            newest = {
                (reader.partition("/")[0], place): reads[-1].offset
                for (reader, place), reads in sorted(self.history.reads.items(), key=lambda item: item[1][-1:])
                if reads
            }
            if all(
                newest.get((group, place), -1) >= log[-1].offset
                for group in self.groups
                for place, log in logs.items()
                if log
            ):
                return
            time.sleep(0.05)


def begin_at_zero(bootstrap: str, group: str, places: list[Place]) -> None:
    """So that members never have to look for the beginning: whoever is sent there later was not let go on where it stood.

    librdkafka looks for it a second time, half a second later, if the first answer took it long, and begins anew.
    """
    opened = consumer(bootstrap, **{"group.id": group})
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            opened.commit(offsets=[TopicPartition(*place, 0) for place in places], asynchronous=False)
        except KafkaException:  # the topic of the offsets may have no leaders yet
            assert time.monotonic() < deadline
        else:
            break
    opened.close()


def read_everything(bootstrap: str, places: list[Place]) -> dict[Place, list[Read]]:
    """All records that a reader of committed ones finds, when nobody writes any more."""
    opened = consumer(
        bootstrap,
        **{"isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest"},
    )
    logs: dict[Place, list[Read]] = {place: [] for place in places}
    left = set(places)
    ends = {
        place: opened.get_watermark_offsets(TopicPartition(*place), timeout=30, cached=False)[1] for place in places
    }
    opened.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
    deadline = time.monotonic() + PATIENCE
    while left:
        assert time.monotonic() < deadline, f"{left} cannot be read to the end"
        for message in opened.consume(500, 0.5):
            place = Place(message.topic(), message.partition())
            error = message.error()
            if error is None:
                logs[place].append(Read(message.offset(), record_of(message.value())))
            elif error.code() == KafkaError._PARTITION_EOF and message.offset() >= ends[place]:
                left.discard(place)
    opened.close()
    return logs
