"""What is measured, each with the stock client librdkafka (confluent-kafka), each run in a process of its own."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.processes import Window

PARTITIONS = 6
Figures = dict[str, float]
now = time.perf_counter


@dataclass
class Run:
    """One measure on one broker."""

    bootstrap: str
    pids: list[int]
    topic: str
    seconds: float
    options: dict[str, Any] = field(default_factory=dict)

    def config(self, **settings: Any) -> dict[str, Any]:
        fixed = {"bootstrap.servers": self.bootstrap, "log_level": 2, "socket.timeout.ms": 15000}
        return fixed | {name.replace("_", "."): value for name, value in settings.items()}

    def create_topic(self, partitions: int = PARTITIONS) -> None:
        admin = AdminClient(self.config())
        new = NewTopic(self.topic, partitions, self.options.get("factor", 1))
        admin.create_topics([new], request_timeout=30)[self.topic].result(35)

    def delete_topic(self) -> None:
        admin = AdminClient(self.config())
        admin.delete_topics([self.topic], request_timeout=30)[self.topic].result(35)

    def consumer(self, **settings: Any) -> Consumer:
        base: dict[str, Any] = {
            "group_id": f"{self.topic}-readers",
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
        }
        return Consumer(self.config(**(base | settings)))

    def stored(self) -> int:
        consumer, count = self.consumer(), 0
        for index in consumer.list_topics(self.topic, timeout=10).topics[self.topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(self.topic, index), timeout=10, cached=False)
            count += high - low
        consumer.close()
        return count


def values(size: int, count: int = 512) -> list[bytes]:
    """Text-like values (lz4 shrinks a batch two to three times), the same on every run."""
    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(3, 9))) for _ in range(400)]
    out = []
    for i in range(count):
        text = f'{{"id":{dice.getrandbits(40)},"ts":{1_700_000_000_000 + i},"text":"'
        while len(text) < size:
            text += dice.choice(words) + (" " if dice.random() < 0.8 else str(dice.getrandbits(20)))
        out.append(text[:size].encode())
    return out


def latency(samples: list[float]) -> Figures:
    ordered = sorted(samples)
    return {
        "p50_ms": ordered[len(ordered) // 2] * 1e3,
        "p99_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3,
    }


def _offer(producer: Producer, topic: str, pool: list[bytes], seconds: float, limit: int) -> int:
    """Produce as fast as the client takes it; at most a second's worth waits in the client, so that no long tail is left."""
    count, started = 0, now()
    while count < limit and now() - started < seconds:
        waiting = len(producer)
        if waiting > max(20_000, (count - waiting) / (now() - started)):
            producer.poll(0.002)
            continue
        for value in pool:
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.005)
        count += len(pool)
        producer.poll(0)
    return count


def produce(run: Run) -> Figures:
    """Rate until the last acknowledgement; the end offsets are then checked."""
    partitions = run.options.get("partitions", PARTITIONS)
    before = run.stored() if run.options.get("append") else 0
    if not before:
        run.create_topic(partitions)
    failed: list[Any] = []
    size = run.options["size"]
    producer = Producer(
        run.config(
            acks=run.options["acks"],
            linger_ms=5,
            compression_type=run.options["compression"],
            enable_idempotence=run.options["idempotent"],
            delivery_report_only_error=True,
        )
        | {"on_delivery": lambda error, _: failed.append(error)}
    )
    # Connections and the producer id are made before the clock starts.
    for index in range(partitions):
        producer.produce(run.topic, b"warm", partition=index)
    if producer.flush(30):
        raise RuntimeError("the first messages were not acknowledged in 30 s")
    window = Window(run.pids)
    count = _offer(producer, run.topic, values(size), run.seconds, (600 << 20) // size)
    left = producer.flush(60)
    figures = window.close(count)
    if left or failed or run.stored() != before + count + partitions:
        raise RuntimeError(f"{left} unacknowledged, {len(failed)} failed, or not all stored")
    if not run.options.get("keep"):
        run.delete_topic()
    return figures


def consume(run: Run) -> Figures:
    """From the beginning, one consumer, no group; what `produce` left in the topic."""
    total, read, spent = run.stored(), 0, 0.0
    window = Window(run.pids)
    while spent < run.seconds:
        # At the stock 1,000 ms it is the client's own pause that limits small messages, not the broker.
        consumer = run.consumer(fetch_queue_backoff_ms=10)
        started, got = now(), 0
        consumer.assign([TopicPartition(run.topic, i, OFFSET_BEGINNING) for i in range(PARTITIONS)])
        while got < total:
            messages = consumer.consume(min(2000, total - got), timeout=5)
            if not messages:
                raise RuntimeError(f"{total - got} of {total} messages did not come")
            got += sum(1 for m in messages if _good(m))
        spent += now() - started
        read += got
        consumer.close()
    figures = window.close(read)
    return figures | {"per_second": read / spent}


def _good(message: Message) -> bool:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    return True


def synchronous(run: Run) -> Figures:
    """One message at a time."""
    run.create_topic()
    producer = Producer(run.config(acks=run.options["acks"], linger_ms=0, enable_idempotence=run.options["idempotent"]))
    pool = values(100)
    samples: list[float] = []

    def send(i: int) -> None:
        producer.produce(run.topic, pool[i % len(pool)], partition=i % PARTITIONS)
        if producer.flush(10):
            raise RuntimeError("no acknowledgement in 10 s")

    for i in range(100):
        send(i)
    window = Window(run.pids)
    while now() - window.started < run.seconds:
        started = now()
        send(len(samples))
        samples.append(now() - started)
    figures = window.close(len(samples))
    run.delete_topic()
    return figures | latency(samples)


def end_to_end(run: Run) -> Figures:
    """From produce() to the consumer's hands, at 1,000 messages a second."""
    sys.setswitchinterval(0.0005)
    run.create_topic()
    consumer = run.consumer()
    consumer.assign([TopicPartition(run.topic, i, 0) for i in range(PARTITIONS)])
    producer = Producer(run.config(acks=run.options["acks"], linger_ms=run.options["linger"]))
    samples: list[float] = []
    seen, done = [0], threading.Event()

    def read() -> None:
        while not done.is_set():
            message = consumer.poll(0.05)
            if message is not None and _good(message):
                kind, sent = (message.value() or b"").split(b" ", 2)[:2]
                seen[0] += 1
                if kind == b"m":
                    samples.append(now() - float(sent))

    def send(kind: bytes, seconds: float) -> int:
        started = now()
        for i in range(int(seconds * 1000)):
            wait = started + i / 1000 - now()
            if wait > 0:
                time.sleep(wait)
            producer.produce(run.topic, b"%s %.9f %s" % (kind, now(), b"x" * 80))
            producer.poll(0)
        return int(seconds * 1000)

    reader = threading.Thread(target=read)
    reader.start()
    warm = send(b"w", 0.7)
    window = Window(run.pids)
    measured = send(b"m", run.seconds)
    figures = window.close(measured)
    producer.flush(10)
    deadline = now() + 10
    while seen[0] < warm + measured and now() < deadline:
        time.sleep(0.01)
    done.set()
    reader.join()
    consumer.close()
    run.delete_topic()
    if seen[0] < warm + measured:
        raise RuntimeError(f"{warm + measured - seen[0]} messages did not arrive")
    return figures | latency(samples)


def many_producers(run: Run) -> Figures:
    """50 producers, each with 10 messages at a time under way."""
    run.create_topic()
    count, pool = 50, values(100)
    ready, stop = threading.Barrier(count + 1), threading.Event()
    samples: list[list[float]] = [[] for _ in range(count)]
    failures: list[str] = []

    def one(i: int) -> None:
        producer = Producer(run.config(acks="1", linger_ms=5, enable_idempotence=False))
        producer.produce(run.topic, pool[0], partition=i % PARTITIONS)
        if producer.flush(30):
            failures.append("no first acknowledgement in 30 s")
        ready.wait()
        while not stop.is_set():
            started = now()
            for j in range(10):
                producer.produce(run.topic, pool[j], partition=i % PARTITIONS)
            if producer.flush(10):
                failures.append("no acknowledgement in 10 s")
                return
            samples[i].append(now() - started)

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    ready.wait(60)
    window = Window(run.pids)
    time.sleep(run.seconds)
    stop.set()
    for thread in threads:
        thread.join(15)
    flat = [s for one_producer in samples for s in one_producer]
    figures = window.close(len(flat))
    run.delete_topic()
    if failures:
        raise RuntimeError(failures[0])
    return figures | latency(flat)


def metadata(run: Run) -> Figures:
    """Requests a second of 8 clients at once."""
    run.create_topic()
    clients = [Producer(run.config()) for _ in range(8)]
    counts = [0] * len(clients)
    for client in clients:
        client.list_topics(run.topic, timeout=10)
    window = Window(run.pids)

    def ask(i: int) -> None:
        while now() - window.started < run.seconds:
            clients[i].list_topics(run.topic, timeout=10)
            counts[i] += 1

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = window.close(sum(counts))
    run.delete_topic()
    return figures


WORKLOADS: dict[str, Callable[[Run], Figures]] = {
    "produce": produce,
    "consume": consume,
    "synchronous": synchronous,
    "end_to_end": end_to_end,
    "many_producers": many_producers,
    "metadata": metadata,
}
