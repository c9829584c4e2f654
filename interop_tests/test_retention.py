"""Retention, compaction and deletion, as consumers and disks see them."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, TopicPartition

from interop_tests.support.broker import Broker, external, running
from interop_tests.support.clients.base import Fetched, Message
from interop_tests.support.clients.confluent import Confluent, consumer
from interop_tests.support.codes import Code
from interop_tests.support.topics import Topics
from interop_tests.support.wait import until
from interop_tests.support.wire import Wire, batch

pytestmark = pytest.mark.skipif(external() is not None, reason="needs a broker that looks after its logs all the time")

# Kafka looks every five minutes; nobody wants to wait for that here.
BUSY = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "100",
}
SEGMENT = 1 << 20  # the smallest that Kafka allows
LONG_AGO = 1_600_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("busy"), BUSY) as started:
        yield started


def fill(bootstrap: str, topic: str, megabytes: int, **more: object) -> None:
    """Batches of 100 kB, so that segments fill evenly."""
    with Wire(bootstrap) as wire:
        for _ in range(10 * megabytes):
            assert wire.produce(topic, batch([b"x" * 10_000] * 10, **more)).error_code == 0


def low(bootstrap: str, topic: str) -> int:
    return Confluent().watermarks(bootstrap, topic, 0)[0]


def test_retention_by_bytes_removes_whole_old_segments(topics: Topics, bootstrap: str) -> None:
    topic = topics.create(segment_bytes=SEGMENT, retention_bytes=2 * SEGMENT)

    fill(bootstrap, topic, 8)

    until(lambda: low(bootstrap, topic) >= 800 - 450, "old segments are gone", seconds=20)
    begin, end = Confluent().watermarks(bootstrap, topic, 0)
    # The limit counts from the newest record back, and the segment that crosses it stays.
    assert 2 * SEGMENT <= (end - begin) * 10_000 <= 4 * SEGMENT + 200_000
    assert end == 800
    found = Confluent().consume(bootstrap, topic, 0, start=begin, count=end - begin)
    assert [record.offset for record in found] == list(range(begin, end))
    with Wire(bootstrap) as wire:
        assert wire.fetch(topic, 0).error_code == Code.OFFSET_OUT_OF_RANGE


def test_retention_by_time_removes_old_records_and_keeps_new_ones(topics: Topics, bootstrap: str) -> None:
    topic = topics.create(retention_ms=3_600_000)

    fill(bootstrap, topic, 1, timestamp=LONG_AGO)
    until(lambda: low(bootstrap, topic) == 100, "what is too old is gone, the active segment too", seconds=20)
    fill(bootstrap, topic, 1)

    until(lambda: Confluent().watermarks(bootstrap, topic, 0) == (100, 200), "new records stay")


def test_a_consumer_whose_place_is_gone_goes_on_where_it_was_told(topics: Topics, bootstrap: str) -> None:
    topic = topics.create()
    Confluent().produce(bootstrap, topic, [Message(value=str(i).encode()) for i in range(10)])
    topics.delete_records(topic, 0, before=7)

    def first(reset: str) -> Fetched | KafkaError:
        reader = consumer(bootstrap, **{"auto.offset.reset": reset})
        reader.assign([TopicPartition(topic, 0, 2)])
        message = until(lambda: reader.poll(0.2), "a message or an error")
        reader.close()
        return message.error() or message.offset()

    assert first("earliest") == 7
    refused = first("error")
    assert isinstance(refused, KafkaError)
    assert refused.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def newest(records: list[Fetched]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


def read_all(bootstrap: str, topic: str) -> list[Fetched]:
    """What a consumer gets that reads the whole log, holes and all."""
    begin, end = Confluent().watermarks(bootstrap, topic, 0)
    found: list[Fetched] = []
    # The log may lose its beginning between the two questions.
    reader = consumer(bootstrap, **{"enable.partition.eof": True, "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition(topic, 0, begin)])
    while True:
        message = reader.poll(10)
        assert message is not None, f"the end {end} is not reached"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append(
            Fetched(
                offset=message.offset(),
                value=message.value(),
                key=message.key(),
                headers=(),
                timestamp=0,
                timestamp_type=None,
            )
        )
    reader.close()
    return found


def test_compaction_keeps_the_newest_value_of_each_key_at_its_offset(topics: Topics, bootstrap: str) -> None:
    topic = topics.create(cleanup_policy="compact", segment_bytes=SEGMENT, min_cleanable_dirty_ratio=0.01)
    pad = b"." * 5_000
    messages = [Message(key=b"key-%d" % (i % 10), value=b"%d" % i + pad) for i in range(600)]
    offsets = Confluent().produce(bootstrap, topic, messages, codec="lz4")
    # Compressed, that fits into one segment: plain ones close it, for the active segment is never compacted.
    tail = [Message(key=b"tail-%d" % i, value=pad * 20) for i in range(30)]
    Confluent().produce(bootstrap, topic, tail)

    until(lambda: len(read_all(bootstrap, topic)) < 100, "old values are gone", seconds=12)

    found = read_all(bootstrap, topic)
    wanted = newest(
        [
            Fetched(offset=0, key=m.key, value=m.value, headers=(), timestamp=0, timestamp_type=None)
            for m in [*messages, *tail]
        ]
    )
    assert newest(found) == wanted
    assert offsets == list(range(600))
    by_key = {record.key: record.offset for record in found}
    assert [by_key[b"key-%d" % i] for i in range(10)] == list(range(590, 600))
    # The log still starts at 0, and a reader at an offset that is no more gets the next one that is.
    assert low(bootstrap, topic) == 0
    assert Confluent().consume(bootstrap, topic, 0, start=5, count=1)[0].offset > 5


def test_tombstones_remove_their_key_and_then_themselves(topics: Topics, bootstrap: str) -> None:
    topic = topics.create(
        cleanup_policy="compact",
        segment_bytes=SEGMENT,
        min_cleanable_dirty_ratio=0.01,
        delete_retention_ms=100,
        segment_ms=200,
    )
    Confluent().produce(
        bootstrap,
        topic,
        [Message(key=b"gone", value=b"v"), Message(key=b"stays", value=b"v"), Message(key=b"gone", value=None)],
    )

    def keys() -> set[bytes | None]:
        # Each record closes the segments before it, and gives the cleaner something to do.
        Confluent().produce(bootstrap, topic, [Message(key=b"clock", value=str(time.time()).encode())])
        return {record.key for record in read_all(bootstrap, topic)}

    until(lambda: keys() == {b"stays", b"clock"}, "key and tombstone are gone", seconds=12)


def test_compact_and_delete_do_both(topics: Topics, bootstrap: str) -> None:
    topic = topics.create(
        cleanup_policy="compact,delete",
        segment_bytes=SEGMENT,
        min_cleanable_dirty_ratio=0.01,
        retention_ms=3_600_000,
        segment_ms=200,
    )
    old = [Message(key=b"old", value=b"x" * 10_000, timestamp=LONG_AGO)] * 50
    Confluent().produce(bootstrap, topic, old)

    def state() -> tuple[bool, set[bytes | None]]:
        Confluent().produce(bootstrap, topic, [Message(key=b"new", value=b"v")])
        return low(bootstrap, topic) >= 50, {record.key for record in read_all(bootstrap, topic)}

    until(lambda: state() == (True, {b"new"}), "old records are deleted", seconds=12)


def used(path: Path) -> int:
    """Bytes on disk; files may vanish while they are counted."""
    total = 0
    for place, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(place) / name).stat().st_blocks * 512
    return total


def test_a_deleted_topic_gives_its_disk_space_back(topics: Topics, broker: Broker) -> None:
    topic = topics.create(file_delete_delay_ms=100)
    before = used(Path(broker.data))
    fill(broker.bootstrap, topic, 30)
    until(lambda: used(Path(broker.data)) > before + 25_000_000, "the records are on disk")

    topics.admin.delete_topics([topic])[topic].result(20)

    until(lambda: used(Path(broker.data)) < before + 10_000_000, "the space is free again", seconds=30)


def test_deleted_records_give_their_disk_space_back(topics: Topics, broker: Broker) -> None:
    topic = topics.create(segment_bytes=SEGMENT, file_delete_delay_ms=100)
    fill(broker.bootstrap, topic, 30)
    full = used(Path(broker.data))

    assert topics.delete_records(topic, 0, before=3000) == 3000

    until(lambda: used(Path(broker.data)) < full - 20_000_000, "the space is free again", seconds=30)
    assert Confluent().watermarks(broker.bootstrap, topic, 0) == (3000, 3000)
