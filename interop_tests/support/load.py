"""Producers that keep a broker busy while it is killed, and remember what it promised."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as RawMessage

from interop_tests.support.clients.base import Fetched
from interop_tests.support.clients.confluent import Confluent

QUEUE_MESSAGES = 500
LARGE_EVERY = 50
LARGE_BYTES = 30_000


@dataclass(slots=True)
class Promises:
    """What the broker acknowledged: (partition, offset) → value."""

    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    sent: dict[int, list[bytes]] = field(default_factory=dict)
    contradicted: list[tuple[int, int]] = field(default_factory=list)


class Load:
    """One producer in a thread, over all partitions of a topic. Values count up per partition."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        idempotent: bool,
        pause: float = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """`pause`: seconds between two records. `settings`: of the producer, besides its own."""
        self._pause = pause
        self.topic = topic
        self.partitions = partitions
        self.is_idempotent = idempotent
        self.promises = Promises(sent={index: [] for index in range(partitions)})
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,  # being cut off is what these are for
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 0,
                "batch.num.messages": 20,  # small and large batches are stored in different places: have both
                "message.timeout.ms": 120_000,
                "queue.buffering.max.messages": QUEUE_MESSAGES,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                **(settings or {}),
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def finish(self) -> None:
        """Send no more, and wait until everything sent has been reported."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(60)
        assert left == 0, f"{left} messages are without a report"

    def acknowledged(self) -> int:
        return len(self.promises.acknowledged)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            partition = number % self.partitions
            value = b"%d:%d" % (partition, number)
            if number % LARGE_EVERY == 0:
                value += b"#" * LARGE_BYTES
            try:
                self._producer.produce(self.topic, value, partition=partition, on_delivery=self._report)
            except BufferError:
                self._producer.poll(0.01)
                continue
            self.promises.sent[partition].append(value)
            self._producer.poll(0)
            if self._pause:
                self._stop.wait(self._pause)
            number += 1

    def _report(self, error: KafkaError | None, message: RawMessage) -> None:
        if error is not None:
            self.promises.problems.append(error.str())
            return
        place = (message.partition(), message.offset())
        if self.promises.acknowledged.setdefault(place, message.value()) != message.value():
            self.promises.contradicted.append(place)


def whole_partition(bootstrap: str, topic: str, partition: int) -> list[Fetched]:
    """Everything in a partition, with its offsets checked to be dense from the log's start to its end."""
    low, high = Confluent().watermarks(bootstrap, topic, partition)
    found = Confluent().consume(bootstrap, topic, partition, start=low, count=high - low) if high > low else []
    assert [record.offset for record in found] == list(range(low, high))
    return found


def check_promises(load: Load, bootstrap: str) -> None:
    """Every acknowledged record is where the acknowledgement said; an idempotent producer's are there once and in order."""
    promises = load.promises
    assert promises.problems == []
    assert promises.contradicted == []
    for partition in range(load.partitions):
        stored = {record.offset: record.value for record in whole_partition(bootstrap, load.topic, partition)}
        promised = {offset: value for (where, offset), value in promises.acknowledged.items() if where == partition}
        lost = {offset: value for offset, value in promised.items() if stored.get(offset) != value}
        assert lost == {}, f"{len(lost)} acknowledged records of {load.topic}-{partition} are lost"
        if load.is_idempotent:
            assert list(stored.values()) == promises.sent[partition]
        else:
            # Without counting, a batch whose acknowledgement was lost may be there twice, but none is missing.
            assert set(stored.values()) >= set(promises.sent[partition])


def wait_for_progress(loads: list[Load], records: int, *, seconds: float = 60.0) -> None:
    """Until each of the loads has had that many more records acknowledged."""
    goals = [(load, load.acknowledged() + records) for load in loads]
    deadline = time.monotonic() + seconds
    while any(load.acknowledged() < goal for load, goal in goals):
        assert time.monotonic() < deadline, [f"{load.topic}: {load.acknowledged()} of {goal}" for load, goal in goals]
        time.sleep(0.005)
