"""kafka-python."""

import time
from collections.abc import Sequence

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError

from interop_tests.support.clients.base import CALL_SECONDS, MAX_REQUEST_BYTES, Fetched, Message, SendError


def consumer(bootstrap: str, **settings: object) -> KafkaConsumer:
    return KafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=200, **settings)


def _fetched(record: ConsumerRecord) -> Fetched:
    return Fetched(
        offset=record.offset,
        value=record.value,
        key=record.key,
        headers=tuple(tuple(header) for header in record.headers),
        timestamp=record.timestamp,
        timestamp_type=record.timestamp_type,
    )


class KafkaPython:
    name = "kafka-python"

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
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=MAX_REQUEST_BYTES,
        )
        try:
            futures = [
                producer.send(
                    topic, message.value, message.key, list(message.headers), message.partition, message.timestamp
                )
                for message in messages
            ]
            offsets = [future.get(CALL_SECONDS).offset for future in futures]
            # Without acknowledgements it reports offsets that nobody told it.
            return [-1] * len(offsets) if acks == "0" else offsets
        except KafkaError as error:
            raise SendError(error.errno, str(error)) from error
        finally:
            producer.close(timeout=5)

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
        reader = consumer(bootstrap, isolation_level=isolation, auto_offset_reset="none")
        where = TopicPartition(topic, partition)
        reader.assign([where])
        reader.seek(where, start)
        deadline = time.monotonic() + seconds
        found: list[Fetched] = []
        while len(found) < count and time.monotonic() < deadline:
            found.extend(_fetched(record) for record in reader.poll(200).get(where, []))
        reader.close()
        return found

    def watermarks(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        reader = consumer(bootstrap)
        where = TopicPartition(topic, partition)
        low, high = reader.beginning_offsets([where])[where], reader.end_offsets([where])[where]
        reader.close()
        return low, high

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        reader = consumer(bootstrap)
        where = TopicPartition(topic, partition)
        found = reader.offsets_for_times({where: timestamp})[where]
        reader.close()
        return None if found is None else found.offset
