"""confluent-kafka: librdkafka."""

import time
from collections.abc import Sequence

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as RawMessage

from interop_tests.support.clients.base import CALL_SECONDS, MAX_REQUEST_BYTES, Fetched, Message, SendError


def producer(bootstrap: str, **settings: object) -> Producer:
    config = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "linger.ms": 0,
        "message.max.bytes": MAX_REQUEST_BYTES,
        **settings,
    }
    return Producer(config)


def consumer(bootstrap: str, **settings: object) -> Consumer:
    config = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "group.id": "unused",  # the client asks for one even when partitions are assigned by hand
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 200,
        **settings,
    }
    return Consumer(config)


def fetched(message: RawMessage) -> Fetched:
    kind, timestamp = message.timestamp()
    return Fetched(
        offset=message.offset(),
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        timestamp=timestamp,
        timestamp_type=kind - 1,  # librdkafka counts from "none"
    )


class Confluent:
    name = "confluent"

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        sender = producer(bootstrap, **{"compression.type": codec, "acks": acks, "enable.idempotence": idempotent})
        reports: list[tuple[KafkaError | None, RawMessage]] = []
        for message in messages:
            extra = {} if message.timestamp is None else {"timestamp": message.timestamp}
            sender.produce(
                topic,
                message.value,
                message.key,
                message.partition,
                on_delivery=lambda error, sent: reports.append((error, sent)),
                headers=list(message.headers),
                **extra,
            )
        left = sender.flush(CALL_SECONDS)
        assert left == 0, f"{left} messages without a delivery report"
        for error, _ in reports:
            if error is not None:
                raise SendError(error.code(), error.str())
        return [-1 if sent.offset() is None or sent.offset() < 0 else sent.offset() for _, sent in reports]

    def consume(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        *,
        start: int,
        count: int,
        seconds: float = CALL_SECONDS,
        read_committed: bool = False,
    ) -> list[Fetched]:
        isolation = "read_committed" if read_committed else "read_uncommitted"
        reader = consumer(bootstrap, **{"isolation.level": isolation})
        reader.assign([TopicPartition(topic, partition, start)])
        deadline = time.monotonic() + seconds
        found: list[Fetched] = []
        while len(found) < count and time.monotonic() < deadline:
            for message in reader.consume(count - len(found), 0.2):
                if message.error():
                    raise KafkaException(message.error())
                found.append(fetched(message))
        reader.close()
        return found

    def watermarks(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        reader = consumer(bootstrap)
        low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), CALL_SECONDS)
        reader.close()
        return low, high

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        reader = consumer(bootstrap)
        [found] = reader.offsets_for_times([TopicPartition(topic, partition, timestamp)], CALL_SECONDS)
        reader.close()
        return None if found.offset == OFFSET_END else found.offset
