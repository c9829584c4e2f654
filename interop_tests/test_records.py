"""What goes in comes out: every client, every codec, every kind of record."""

import time
from dataclasses import replace

import pytest

from interop_tests.support.clients.base import Client, Message, SendError
from interop_tests.support.clients.confluent import Confluent
from interop_tests.support.clients.every import CLIENTS
from interop_tests.support.clients.kcat import Kcat
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from interop_tests.support.wire import Wire, batches

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
MESSAGE_TOO_LARGE = 10
MEGABYTE = 1_000_000

# Compressible, and more than one record, so that a client does not fall back to sending it plain.
BODIES = [Message(key=f"key-{i}".encode(), value=f"value-{i} ".encode() * 40) for i in range(40)]


def stored_codecs(bootstrap: str, topic: str) -> set[int]:
    with Wire(bootstrap) as wire:
        return {batch.compression_type for batch in batches(wire.fetch(topic, 0, partition_max_bytes=10 << 20).records)}


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_are_stored_in_it_and_come_back_whole(
    client: Client, codec: str, bootstrap: str, topics: Topics
) -> None:
    topic = topics.create(codec)

    client.produce(bootstrap, topic, BODIES, codec=codec)
    found = client.consume(bootstrap, topic, 0, start=0, count=len(BODIES))

    assert [(record.offset, record.key, record.value) for record in found] == [
        (i, body.key, body.value) for i, body in enumerate(BODIES)
    ]
    assert stored_codecs(bootstrap, topic) == {CODECS[codec]}


@pytest.mark.parametrize(("acks", "idempotent"), [("0", False), ("1", False), ("all", False), ("all", True)])
def test_records_arrive_with_each_kind_of_acknowledgement(
    client: Client, acks: str, idempotent: bool, bootstrap: str, topics: Topics
) -> None:
    topic = topics.create(f"acks-{acks}")
    offsets = client.produce(bootstrap, topic, BODIES, acks=acks, idempotent=idempotent)

    until(lambda: client.watermarks(bootstrap, topic, 0) == (0, len(BODIES)), "all records are in the log")

    is_told = acks != "0" and client.name != "kcat"
    assert offsets == (list(range(len(BODIES))) if is_told else [-1] * len(BODIES))
    with Wire(bootstrap) as wire:
        has_producer = {batch.producer_id >= 0 for batch in batches(wire.fetch(topic, 0).records)}
    assert has_producer == {idempotent}


ODD_RECORDS = [
    Message(key=None, value=b"no key"),
    Message(key=b"no value", value=None),
    Message(key=None, value=None),
    Message(key=b"", value=b""),
    Message(key=b"\x00\xff", value=b"\xff\x00\xfe"),
    Message(key=b"one header", value=b"v", headers=(("trace", b"abc"),)),
    Message(key=b"same name twice", value=b"v", headers=(("a", b"1"), ("a", b"2"), ("b", b"3"), ("a", b"1"))),
    Message(key=b"null and empty header", value=b"v", headers=(("null", None), ("empty", b""), ("", b"no name"))),
    Message(key=b"bytes in a header", value=b"v", headers=(("naïve-ключ", b"\x00\xff\x80"),)),
    Message(key=b"early", value=b"v", timestamp=1),
    Message(key=b"old", value=b"v", timestamp=1_600_000_000_123),
]


def sendable(client: Client, message: Message) -> Message:
    """What kafka-python and aiokafka refuse to send: neither key nor value, and (kafka-python) a null header value."""
    key = b"k" if client.name in ("kafka-python", "aiokafka") and message.value is None else message.key
    fill = b"" if client.name == "kafka-python" else None
    headers = tuple((name, fill if value is None else value) for name, value in message.headers)
    return replace(message, key=key, headers=headers)


# kcat takes text only: its own test follows.
@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "kcat"], indirect=True)
def test_keys_values_headers_and_timestamps_come_back_as_they_were(
    client: Client, bootstrap: str, topics: Topics
) -> None:
    topic = topics.create("odd")
    wanted = [*(sendable(client, message) for message in ODD_RECORDS), *ODD_RECORDS]
    before = int(time.time() * 1000)

    client.produce(bootstrap, topic, wanted[: len(ODD_RECORDS)])
    Confluent().produce(bootstrap, topic, ODD_RECORDS)
    mine = client.consume(bootstrap, topic, 0, start=0, count=len(wanted))
    theirs = Confluent().consume(bootstrap, topic, 0, start=0, count=len(wanted))

    for found in (mine, theirs):
        assert [(r.key, r.value, r.headers) for r in found] == [(m.key, m.value, m.headers) for m in wanted]
    for record, message in zip(mine, wanted, strict=True):
        if message.timestamp is not None:
            assert record.timestamp == message.timestamp
        else:
            assert before - 1000 <= record.timestamp <= int(time.time() * 1000) + 1000
        assert record.timestamp_type in (0, None)


def test_kcat_sends_null_keys_null_values_and_headers(bootstrap: str, topics: Topics) -> None:
    topic = topics.create("kcat")
    headers = (("trace", b"abc"), ("trace", b"def"), ("bare", None))
    sent = [Message(key=None, value=b"no key", headers=headers), Message(key=b"no value", value=None, headers=headers)]

    Kcat().produce(bootstrap, topic, sent)
    found = Kcat().consume(bootstrap, topic, 0, start=0, count=2)

    assert [(record.key, record.value, record.headers) for record in found] == [
        (None, b"no key", headers),
        (b"no value", None, headers),
    ]


def test_a_message_of_a_megabyte_arrives_and_a_larger_one_is_the_clients_own_error(
    client: Client, bootstrap: str, topics: Topics
) -> None:
    topic = topics.create("large")
    large = Message(key=b"large", value=b"x" * MEGABYTE)

    client.produce(bootstrap, topic, [large])
    with pytest.raises(SendError) as refused:
        client.produce(bootstrap, topic, [Message(key=b"larger", value=b"x" * 2 * MEGABYTE)])
    client.produce(bootstrap, topic, [Message(key=b"after", value=b"small")])

    assert refused.value.code == MESSAGE_TOO_LARGE
    found = client.consume(bootstrap, topic, 0, start=0, count=2)
    assert [(record.offset, record.key, record.value) for record in found] == [
        (0, b"large", large.value),
        (1, b"after", b"small"),
    ]


def test_the_topics_own_message_limit_holds(client: Client, bootstrap: str, topics: Topics) -> None:
    topic = topics.create("limit", max_message_bytes=10_000)

    client.produce(bootstrap, topic, [Message(key=b"k", value=b"x" * 9_000)])
    with pytest.raises(SendError) as refused:
        client.produce(bootstrap, topic, [Message(key=b"k", value=b"x" * 11_000)])

    assert refused.value.code == MESSAGE_TOO_LARGE


def test_consumers_start_at_any_offset_or_time(client: Client, bootstrap: str, topics: Topics) -> None:
    topic = topics.create("seek", partitions=2)
    base = 1_700_000_000_000
    messages = [Message(key=b"k", value=str(i).encode(), timestamp=base + i * 1000, partition=1) for i in range(20)]
    Confluent().produce(bootstrap, topic, messages[:10])
    Confluent().produce(bootstrap, topic, messages[10:])

    by_offset = client.consume(bootstrap, topic, 1, start=7, count=13)
    exact = client.offset_for_time(bootstrap, topic, 1, base + 12_000)
    between = client.offset_for_time(bootstrap, topic, 1, base + 12_001)
    before = client.offset_for_time(bootstrap, topic, 1, base - 1)
    after = client.offset_for_time(bootstrap, topic, 1, base + 19_001)

    assert [record.offset for record in by_offset] == list(range(7, 20))
    assert (exact, between, before, after) == (12, 13, 0, None)
    assert client.watermarks(bootstrap, topic, 0) == (0, 0)
    assert client.watermarks(bootstrap, topic, 1) == (0, 20)


def test_read_committed_consumers_see_plain_records_at_once(client: Client, bootstrap: str, topics: Topics) -> None:
    topic = topics.create("committed")
    client.produce(bootstrap, topic, BODIES)

    found = client.consume(bootstrap, topic, 0, start=0, count=len(BODIES), read_committed=True)

    assert len(found) == len(BODIES)


def test_writing_to_a_topic_that_is_not_there_creates_it(client: Client, bootstrap: str) -> None:
    topic = fresh_name("auto")

    client.produce(bootstrap, topic, BODIES)

    found = client.consume(bootstrap, topic, 0, start=0, count=len(BODIES))
    assert [record.value for record in found] == [body.value for body in BODIES]


def test_log_append_time_is_the_brokers_clock(client: Client, bootstrap: str, topics: Topics) -> None:
    topic = topics.create("append-time", message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)

    # kcat cannot choose a timestamp; the others claim one from the past.
    timestamp = None if client.name == "kcat" else 1_000
    client.produce(bootstrap, topic, [Message(key=b"k", value=b"v", timestamp=timestamp)] * 3, codec="lz4")
    found = client.consume(bootstrap, topic, 0, start=0, count=3)

    assert all(before <= record.timestamp <= int(time.time() * 1000) for record in found)
    assert {record.timestamp_type for record in found} <= {1, None}
    assert client.offset_for_time(bootstrap, topic, 0, before) == 0
