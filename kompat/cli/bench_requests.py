"""The requests of a measurement: batches are built once, and fetched batches are counted without decoding their records.

So the result is the broker's speed, not that of encoding records in Python.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from kompat.cli.command import CommandError
from kompat.cli.kafka_client import check
from kompat.protocol.records import Compression, Record, build_batch, read_header, split_batches

NAMED: Final = 12  # the last version of Produce and Fetch with topic names, which all present brokers support
TIMEOUT_MS: Final = 30_000
FETCH_BYTES: Final = 8 << 20
MOST_NOISE: Final = 4 << 20  # bytes
CODECS: Final = {codec.name.lower(): codec for codec in Compression}


def batch_of(count: int, size: int, codec: str, now: int) -> bytes:
    """A batch of `count` records of `size` bytes, which compress by about half."""
    noise = os.urandom(min(count * size, MOST_NOISE)).hex().encode()
    room = max(1, len(noise) - size)
    records = [Record(at, now, None, noise[at * size % room :][:size]) for at in range(count)]
    return bytes(build_batch(records, compression=CODECS[codec]))


def produce_request(topic: str, partition: int, batch: bytes, acks: int) -> Any:
    from kafka.protocol.producer import ProduceRequest

    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[data(name=topic, partition_data=[part])],
        max_version=NAMED,
    )


def check_produced(answer: Any) -> None:
    for topic in answer.responses:
        for each in topic.partition_responses:
            check(each.error_code, getattr(each, "error_message", None), f"{topic.name}/{each.index}")


def fetch_request(topic: str, offsets: Sequence[tuple[int, int]], max_wait_ms: int) -> Any:
    from kafka.protocol.consumer import FetchRequest

    kind = FetchRequest.FetchTopic
    parts = [
        kind.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        for index, offset in offsets
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=8 * FETCH_BYTES,
        isolation_level=0,
        topics=[kind(topic=topic, partitions=parts)],
        max_version=NAMED,
        min_version=4,
    )


def fetched(answer: Any) -> tuple[dict[int, int], int, int]:
    """The next offset of each partition, the number of records and the number of bytes."""
    after: dict[int, int] = {}
    records = size = 0
    for topic in answer.responses:
        for each in topic.partitions:
            check(each.error_code, None, f"{topic.topic}/{each.partition_index}")
            content = memoryview(bytes(each.records or b""))
            for batch in split_batches(_whole(content)):
                header = read_header(batch)
                after[each.partition_index] = header.last_offset + 1
                records += header.record_count
                size += len(batch)
    return after, records, size


def _whole(content: memoryview) -> memoryview:
    """The content without a partial batch at its end, which Kafka may return."""
    at = 0
    while at + 12 <= len(content):
        length = 12 + int.from_bytes(content[at + 8 : at + 12], "big")
        if at + length > len(content):
            break
        at += length
    return content[:at]


def leaders(topics: Sequence[dict[str, Any]]) -> dict[int, int]:
    """The leader of each partition of the one topic."""
    found = {each["partition_index"]: each["leader_id"] for each in topics[0]["partitions"]}
    if any(leader < 0 for leader in found.values()):
        raise CommandError(f"{topics[0]['name']} has partitions without a leader")
    return found
