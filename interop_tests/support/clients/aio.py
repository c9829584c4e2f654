"""aiokafka; each call runs an event loop of its own."""

import asyncio
import time
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from interop_tests.support.clients.base import CALL_SECONDS, MAX_REQUEST_BYTES, Fetched, Message, SendError


def _fetched(record: ConsumerRecord) -> Fetched:
    return Fetched(
        offset=record.offset,
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        timestamp=record.timestamp,
        timestamp_type=record.timestamp_type,
    )


class AioKafka:
    name = "aiokafka"

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
        return asyncio.run(self._produce(bootstrap, topic, messages, codec, acks, idempotent))

    async def _produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], codec: str, acks: str, idempotent: bool
    ) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=MAX_REQUEST_BYTES,
        )
        await producer.start()
        try:
            # Messages are handed over one by one, for the order of tasks started together is not promised.
            futures = [
                await producer.send(
                    topic,
                    message.value,
                    message.key,
                    message.partition,
                    timestamp_ms=message.timestamp,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            reports = [await asyncio.wait_for(future, CALL_SECONDS) for future in futures]
            # Without acknowledgement the client has nothing to report.
            return [-1 if report is None else report.offset for report in reports]
        except KafkaError as error:
            raise SendError(error.errno, str(error)) from error
        finally:
            await producer.stop()

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
        return asyncio.run(
            self._consume(bootstrap, TopicPartition(topic, partition), start, count, seconds, read_committed)
        )

    async def _consume(
        self, bootstrap: str, where: TopicPartition, start: int, count: int, seconds: float, read_committed: bool
    ) -> list[Fetched]:
        isolation = "read_committed" if read_committed else "read_uncommitted"
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            auto_offset_reset="none",
            fetch_max_wait_ms=200,
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            consumer.assign([where])
            consumer.seek(where, start)
            deadline = time.monotonic() + seconds
            found: list[Fetched] = []
            while len(found) < count and time.monotonic() < deadline:
                records = (await consumer.getmany(timeout_ms=200)).get(where, [])
                found.extend(_fetched(record) for record in records)
            return found
        finally:
            await consumer.stop()

    def watermarks(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        async def ask() -> tuple[int, int]:
            where = TopicPartition(topic, partition)
            async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
                low = (await consumer.beginning_offsets([where]))[where]
                return low, (await consumer.end_offsets([where]))[where]

        return asyncio.run(ask())

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        async def ask() -> int | None:
            where = TopicPartition(topic, partition)
            async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
                found = (await consumer.offsets_for_times({where: timestamp}))[where]
                return None if found is None else found.offset

        return asyncio.run(ask())
