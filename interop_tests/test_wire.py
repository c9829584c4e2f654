"""Rules that no client lets a test see alone: repeated batches, refusals, versions, manners."""

import socket
import struct
import time
import uuid
from collections.abc import Iterator

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from interop_tests.support.codes import Code
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until
from interop_tests.support.wire import Wire, batch, batches, fetch_request, produce_request

# A loaded machine may be late, never early.
LATE_MS = 1500


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    with Wire(bootstrap) as connection:
        yield connection


def milliseconds_since(began: float) -> float:
    return (time.monotonic() - began) * 1000


class TestIdempotence:
    """A producer that counts its batches writes each of them once."""

    def test_a_repeated_batch_is_answered_with_its_old_offset(self, wire: Wire, topics: Topics) -> None:
        topic, producer = topics.create(), wire.producer_id()
        sent = [batch([b"a", b"b"], producer=producer, sequence=2 * i) for i in range(6)]

        first = [wire.produce(topic, records).base_offset for records in sent]
        again = [wire.produce(topic, records) for records in sent[1:]]

        assert first == [0, 2, 4, 6, 8, 10]
        assert [(answer.error_code, answer.base_offset) for answer in again] == [
            (0, 2),
            (0, 4),
            (0, 6),
            (0, 8),
            (0, 10),
        ]
        assert wire.fetch(topic, 0).high_watermark == 12

    def test_a_gap_is_refused(self, wire: Wire, topics: Topics) -> None:
        topic, producer = topics.create(), wire.producer_id()
        wire.produce(topic, batch([b"a"], producer=producer, sequence=0))

        assert (
            wire.produce(topic, batch([b"c"], producer=producer, sequence=2)).error_code
            == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        assert wire.fetch(topic, 0).high_watermark == 1

    def test_an_older_epoch_is_fenced(self, wire: Wire, topics: Topics) -> None:
        topic, (producer, epoch) = topics.create(), wire.producer_id()
        wire.produce(topic, batch([b"new"], producer=(producer, epoch + 1), sequence=0))

        assert (
            wire.produce(topic, batch([b"old"], producer=(producer, epoch), sequence=0)).error_code
            == Code.INVALID_PRODUCER_EPOCH
        )

    def test_a_new_epoch_starts_at_zero(self, wire: Wire, topics: Topics) -> None:
        topic, (producer, epoch) = topics.create(), wire.producer_id()
        wire.produce(topic, batch([b"a"], producer=(producer, epoch), sequence=0))

        assert (
            wire.produce(topic, batch([b"b"], producer=(producer, epoch + 1), sequence=5)).error_code
            == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        assert wire.produce(topic, batch([b"b"], producer=(producer, epoch + 1), sequence=0)).base_offset == 1

    def test_the_sequence_wraps_to_zero(self, wire: Wire, topics: Topics) -> None:
        topic, producer = topics.create(), wire.producer_id()
        last = 2**31 - 1

        # A producer that this partition has not seen may begin anywhere.
        answers = [
            wire.produce(topic, batch([b"a", b"b"], producer=producer, sequence=last - 1)),
            wire.produce(topic, batch([b"c"], producer=producer, sequence=0)),
        ]

        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 2)]

    def test_producer_ids_are_never_given_twice(self, wire: Wire) -> None:
        given = [wire.producer_id()[0] for _ in range(50)]

        assert len(set(given)) == 50


class TestValidation:
    """What Kafka's log does not take, this one does not take either."""

    def test_a_damaged_batch_is_corrupt(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()
        damaged = bytearray(batch([b"value"]))
        damaged[-3] ^= 0xFF

        assert wire.produce(topic, bytes(damaged)).error_code == Code.CORRUPT_MESSAGE

    def test_two_batches_in_one_request_are_refused(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()

        assert wire.produce(topic, batch([b"a"]) + batch([b"b"])).error_code == Code.INVALID_RECORD

    def test_a_compacted_topic_wants_keys(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create(cleanup_policy="compact")

        refused = wire.produce(topic, batch([b"no key"]))

        assert refused.error_code == Code.INVALID_RECORD
        assert [error.batch_index for error in refused.record_errors] == [0]
        assert wire.produce(topic, batch([b"v"], key=b"k")).error_code == 0

    def test_a_timestamp_too_far_ahead_is_refused(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create(message_timestamp_after_max_ms=60_000, message_timestamp_before_max_ms=60_000)
        now = int(time.time() * 1000)

        assert wire.produce(topic, batch([b"v"], timestamp=now + 120_000)).error_code == Code.INVALID_TIMESTAMP
        assert wire.produce(topic, batch([b"v"], timestamp=now - 120_000)).error_code == Code.INVALID_TIMESTAMP
        assert wire.produce(topic, batch([b"v"], timestamp=now)).error_code == 0

    @pytest.mark.parametrize(
        ("codec", "number"), [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4), ("uncompressed", 0)]
    )
    def test_the_topics_codec_wins_over_the_producers(
        self, wire: Wire, topics: Topics, codec: str, number: int
    ) -> None:
        topic = topics.create(compression_type=codec)
        sent = [b"value %d " % i * 50 for i in range(20)]

        wire.produce(topic, batch(sent, codec=3 if number != 3 else 1))

        stored = batches(wire.fetch(topic, 0).records)
        assert {part.compression_type for part in stored} == {number}
        assert [record.value for part in stored for record in part] == sent

    def test_a_topic_or_partition_that_is_not_there_is_unknown(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()

        assert wire.produce(topic, batch([b"v"]), partition=9).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert wire.produce("no-such-topic", batch([b"v"])).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert wire.fetch(topic, 0, partition=9).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_topic_id_that_is_not_there_is_unknown(self, wire: Wire) -> None:
        stranger = uuid.uuid4()

        produced = wire.ask(produce_request("", batch([b"v"]), topic_id=stranger), 13)
        fetched = wire.ask(fetch_request("x", 0, topic_id=stranger), 16)

        assert produced.responses[0].partition_responses[0].error_code == Code.UNKNOWN_TOPIC_ID
        assert fetched.responses[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_ID

    @pytest.mark.parametrize("version", range(3, 14))
    def test_a_produce_answers_in_every_version(self, wire: Wire, topics: Topics, version: int) -> None:
        topic = topics.create()
        topic_id = wire.topic_id(topic) if version >= 13 else None

        answer = wire.ask(produce_request(topic, batch([b"v"]), topic_id=topic_id), version)

        [found] = answer.responses[0].partition_responses
        assert (found.error_code, found.base_offset, found.log_append_time_ms) == (0, 0, -1)


class TestConnection:
    """Order, versions and manners."""

    def test_answers_leave_in_the_order_of_their_requests(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()
        wire.send(fetch_request(topic, 0, max_wait_ms=300), 12)
        wire.send(produce_request(topic, batch([b"v"])), 12)
        wire.send(MetadataRequest(topics=[]), 9)

        assert wire.receive().responses[0].partitions[0].error_code == 0
        assert wire.receive().responses[0].partition_responses[0].base_offset == 0
        assert wire.receive().brokers

    def test_without_acknowledgement_nothing_is_answered(self, wire: Wire, topics: Topics) -> None:
        topic = topics.create()

        wire.send(produce_request(topic, batch([b"v"]), acks=0), 9)
        metadata = wire.ask(MetadataRequest(topics=[]), 9)

        assert metadata.brokers
        until(lambda: wire.fetch(topic, 0).high_watermark == 1, "the record is there")

    def test_an_unknown_api_versions_version_is_answered_in_version_0(self, wire: Wire) -> None:
        wire.socket.sendall(_framed(struct.pack(">hhih", 18, 99, 7, -1) + b"\x00\x00"))

        correlation, error, count = struct.unpack_from(">ihi", wire.receive_frame())

        assert (correlation, error) == (7, Code.UNSUPPORTED_VERSION)
        assert count >= 1

    def test_api_versions_of_every_version_list_the_same_apis(self, wire: Wire) -> None:
        listed = [
            {
                (api.api_key, api.min_version, api.max_version)
                for api in wire.ask(
                    ApiVersionsRequest(client_software_name="wire", client_software_version="1"), version
                ).api_keys
            }
            for version in range(5)
        ]

        assert all(apis == listed[0] for apis in listed)
        assert {(0, 0, 13), (1, 4, 18), (3, 0, 13), (18, 0, 4)} <= listed[0]

    def test_a_frame_beyond_the_limit_closes_the_connection_and_nobody_else_notices(
        self, wire: Wire, bootstrap: str
    ) -> None:
        with Wire(bootstrap) as rude:
            rude.socket.sendall(struct.pack(">i", 2**31 - 1) + b"x" * 100)
            assert _is_closed(rude.socket)

        assert wire.ask(MetadataRequest(topics=[]), 9).brokers

    def test_garbage_closes_the_connection(self, wire: Wire, bootstrap: str) -> None:
        with Wire(bootstrap) as rude:
            rude.socket.sendall(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n")
            assert _is_closed(rude.socket)

        assert wire.ask(MetadataRequest(topics=[]), 9).brokers

    def test_many_waiting_consumers_do_not_slow_a_producer(self, wire: Wire, topics: Topics, bootstrap: str) -> None:
        topic = topics.create()
        waiting = [Wire(bootstrap) for _ in range(50)]
        for connection in waiting:
            connection.send(fetch_request(topic, 0, max_wait_ms=20_000), 12)
        began = time.monotonic()

        wire.produce(topic, batch([b"for all"]))
        answers = [connection.receive().responses[0].partitions[0] for connection in waiting]

        assert milliseconds_since(began) < 2 * LATE_MS
        assert all(len(batches(found.records)) == 1 for found in answers)
        for connection in waiting:
            connection.socket.close()

    def test_metadata_creates_a_topic_only_when_asked_to(self, wire: Wire) -> None:
        name = fresh_name("auto")

        def ask(allow: bool) -> int:
            topic = MetadataRequest.MetadataRequestTopic(name=name)
            return int(
                wire.ask(MetadataRequest(topics=[topic], allow_auto_topic_creation=allow), 9).topics[0].error_code
            )

        assert ask(allow=False) == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert ask(allow=False) == Code.UNKNOWN_TOPIC_OR_PARTITION
        ask(allow=True)
        until(lambda: ask(allow=True) == 0, "the topic has been created")


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _is_closed(connection: socket.socket) -> bool:
    """Whether the broker hangs up; whatever it says before that is read."""
    connection.settimeout(10)
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True
