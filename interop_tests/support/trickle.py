"""A steady trickle of records for groups to share."""

import threading
import time
from types import TracebackType

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as RawMessage


class Trickle:
    """One record every `interval` seconds, to the topic's partitions in turn, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, interval: float = 0.01) -> None:
        self.topic = topic
        self.partitions = partitions
        self.acknowledged: dict[tuple[str, int, int], str] = {}
        self.problems: list[str] = []
        self._interval = interval
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Trickle":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def finish(self) -> dict[tuple[str, int, int], str]:
        """Send no more; everything that was sent, by topic, partition and offset."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(60)
        assert left == 0, f"{left} messages are without a report"
        assert self.problems == []
        return self.acknowledged

    def _run(self) -> None:
        number = 0
        due = time.monotonic()
        while not self._stop.is_set():
            self._producer.produce(
                self.topic, str(number), partition=number % self.partitions, on_delivery=self._report
            )
            number += 1
            due += self._interval
            self._producer.poll(max(0.0, due - time.monotonic()))
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _report(self, error: KafkaError | None, message: RawMessage) -> None:
        if error is not None:
            self.problems.append(error.str())
            return
        place = (message.topic(), message.partition(), message.offset())
        self.acknowledged[place] = (message.value() or b"").decode()
