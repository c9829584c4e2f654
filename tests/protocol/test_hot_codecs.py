"""The hand-written codecs of Produce and Fetch do what the schema codec does, in every version."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ProtocolError
from kompat.protocol import fetch, messages, produce, wire
from kompat.protocol.codec import decode_request
from kompat.protocol.messages.encoder import Encoder
from kompat.types import ZERO_UUID
from tests.protocol.samples import message, mutated

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)


def sample(rng: Random, made: Any, version: int) -> Any:
    return message(rng, made, made.SCHEMA.struct, version)


def encode(made: Any, version: int, value: Any) -> bytes:
    out = bytearray()
    Encoder(version, flexible=made.is_flexible(version)).struct(made.SCHEMA.struct)(out, value)
    return bytes(out)


# -- Produce ---------------------------------------------------------------------------------------------------------
def produce_facts(request: Any) -> Any:
    return (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        [
            (t.name, t.topic_id or ZERO_UUID, [(p.index, p.records) for p in t.partition_data])
            for t in request.topic_data
        ],
    )


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_produce_requests_are_read_alike(version: int, seed: int) -> None:
    made = messages.ProduceRequest
    body = memoryview(encode(made, version, sample(Random(seed), made, version)))

    by_hand = produce.decode_produce_request(version, body)

    assert produce_facts(by_hand) == produce_facts(decode_request(made, version, body))


def to_produce_response(value: Any) -> produce.ProduceResponse:
    response = produce.ProduceResponse([], value.throttle_time_ms)
    response.node_endpoints = value.node_endpoints
    for topic in value.responses:
        partitions = []
        for p in topic.partition_responses:
            partition = produce.PartitionResponse(
                p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset
            )
            partition.record_errors = p.record_errors
            partition.error_message = p.error_message
            partition.current_leader = p.current_leader
            partitions.append(partition)
        response.responses.append(produce.TopicResponse(topic.name, topic.topic_id or ZERO_UUID, partitions))
    return response


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_produce_responses_are_written_alike(version: int, seed: int) -> None:
    made = messages.ProduceResponse
    value = sample(Random(seed), made, version)

    by_hand = b"".join(produce.encode_produce_response(version, to_produce_response(value)))

    assert by_hand == encode(made, version, value)


def test_records_are_writable_slices_of_the_frame() -> None:
    made = messages.ProduceRequest
    topic = made.TopicProduceData(name="t")
    topic.partition_data = [made.TopicProduceData.PartitionProduceData(index=0, records=b"records")]
    frame = bytearray(encode(made, 9, made(acks=1, topic_data=[topic])))

    request = produce.decode_produce_request(9, memoryview(frame))
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    records[:3] = b"REC"

    assert b"RECords" in frame


def test_a_refused_partition_forgets_its_offsets() -> None:
    partition = produce.PartitionResponse(0, 0, 17, 5, 3)
    partition.refuse(produce.ErrorCode.KAFKA_STORAGE_ERROR, "disk full")

    assert (partition.base_offset, partition.log_append_time_ms, partition.log_start_offset) == (-1, -1, -1)
    assert (partition.error_code, partition.error_message) == (56, "disk full")


# -- Fetch -----------------------------------------------------------------------------------------------------------
def fetch_facts(request: Any, version: int) -> Any:
    state = getattr(request, "replica_state", None)
    replica_id = state.replica_id if state is not None and version >= 15 else request.replica_id
    return (
        request.cluster_id,
        replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        request.rack_id,
        [
            (
                t.topic,
                t.topic_id or ZERO_UUID,
                [
                    (
                        p.partition,
                        p.current_leader_epoch,
                        p.fetch_offset,
                        p.last_fetched_epoch,
                        p.log_start_offset,
                        p.partition_max_bytes,
                    )
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ],
        [(t.topic, t.topic_id or ZERO_UUID, t.partitions) for t in request.forgotten_topics_data],
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_fetch_requests_are_read_alike(version: int, seed: int) -> None:
    made = messages.FetchRequest
    body = memoryview(encode(made, version, sample(Random(seed), made, version)))

    by_hand = fetch.decode_fetch_request(version, body)

    assert fetch_facts(by_hand, version) == fetch_facts(decode_request(made, version, body), version)


def to_fetch_response(rng: Random, value: Any) -> fetch.FetchResponse:
    response = fetch.FetchResponse(value.throttle_time_ms, value.error_code, value.session_id, [])
    response.node_endpoints = value.node_endpoints
    for topic in value.responses:
        partitions = []
        for p in topic.partitions:
            partition = fetch.PartitionResponse(p.partition_index, p.error_code)
            partition.high_watermark = p.high_watermark
            partition.last_stable_offset = p.last_stable_offset
            partition.log_start_offset = p.log_start_offset
            partition.diverging_epoch = p.diverging_epoch
            partition.current_leader = p.current_leader
            partition.aborted_transactions = p.aborted_transactions
            partition.preferred_read_replica = p.preferred_read_replica
            cut = rng.randint(0, len(p.records))
            partition.records = [p.records[:cut], p.records[cut:]] if p.records else ()
            partitions.append(partition)
        response.responses.append(fetch.TopicResponse(topic.topic, topic.topic_id or ZERO_UUID, partitions))
    return response


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_fetch_responses_are_written_alike(version: int, seed: int) -> None:
    rng = Random(seed)
    made = messages.FetchResponse
    value = sample(rng, made, version)
    for topic in value.responses:
        for p in topic.partitions:
            p.snapshot_id = None  # only metadata replicas are told of snapshots
            p.records = p.records or b""  # as Kafka: consumers get empty records, not null

    by_hand = b"".join(fetch.encode_fetch_response(version, to_fetch_response(rng, value)))

    assert by_hand == encode(made, version, value)


def test_record_buffers_are_passed_on_unjoined() -> None:
    batch = bytearray(100)
    partition = fetch.PartitionResponse(0)
    partition.records = [memoryview(batch), b"another"]
    topic = fetch.TopicResponse("t", ZERO_UUID, [partition])

    buffers = fetch.encode_fetch_response(12, fetch.FetchResponse(responses=[topic]))

    assert any(buffer is partition.records[0] for buffer in buffers)


# -- malformed -------------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damaged_requests_are_refused_or_understood_and_nothing_else(seed: int) -> None:
    rng = Random(seed)
    for made, decode, versions in (
        (messages.ProduceRequest, produce.decode_produce_request, PRODUCE_VERSIONS),
        (messages.FetchRequest, fetch.decode_fetch_request, FETCH_VERSIONS),
    ):
        version = rng.choice(versions)
        body = mutated(rng, encode(made, version, sample(rng, made, version)))
        try:
            decode(version, memoryview(body))
        except ProtocolError:
            continue


@settings(max_examples=60, deadline=None)
@given(body=st.binary(max_size=200))
def test_random_bytes_are_refused_or_understood_and_nothing_else(body: bytes) -> None:
    for decode, versions in (
        (produce.decode_produce_request, PRODUCE_VERSIONS),
        (fetch.decode_fetch_request, FETCH_VERSIONS),
    ):
        for version in versions:
            try:
                decode(version, memoryview(body))
            except ProtocolError:
                continue


def test_a_forgotten_topic_with_an_impossible_number_of_partitions_is_refused() -> None:
    made = messages.FetchRequest
    value = made(forgotten_topics_data=[made.ForgottenTopic(topic="t", partitions=[1, 2, 3])])
    body = encode(made, 7, value)[:-8]

    with pytest.raises(ProtocolError):
        fetch.decode_fetch_request(7, memoryview(body))


# -- what costs time before it is known to be of any use ---------------------------------------------------------------
@pytest.mark.parametrize("version", [8, 9])
def test_a_produce_request_has_so_many_topics_and_partitions_and_no_more(version: int) -> None:
    def body(count: int) -> memoryview:
        made = messages.ProduceRequest.TopicProduceData
        data = [made.PartitionProduceData(index=index, records=None) for index in range(count)]
        request = messages.ProduceRequest(topic_data=[made(name="t", partition_data=data)])
        return memoryview(encode(messages.ProduceRequest, version, request))

    [topic] = produce.decode_produce_request(version, body(produce.MOST_ITEMS - 1)).topic_data
    assert len(topic.partition_data) == produce.MOST_ITEMS - 1
    with pytest.raises(ProtocolError, match="more than 20000 topics and partitions"):
        produce.decode_produce_request(version, body(produce.MOST_ITEMS))


def test_the_tagged_fields_of_all_items_together_are_bounded() -> None:
    tags = wire.ItemTags()
    few = memoryview(bytes([wire.MOST_TAGS]) + b"\x05\x00" * wire.MOST_TAGS)
    for _ in range(wire.MOST_TAGS_OF_ITEMS // wire.MOST_TAGS):
        assert tags.skip(few, 0) == len(few)
    with pytest.raises(ProtocolError, match="tagged fields"):
        tags.skip(few, 0)


def test_fetch_and_produce_requests_with_very_many_tagged_fields_are_refused() -> None:
    fields = bytes([wire.MOST_TAGS]) + b"\x05\x00" * wire.MOST_TAGS
    count = wire.MOST_TAGS_OF_ITEMS // wire.MOST_TAGS + 1
    compact = bytes([(count + 1) & 0x7F | 0x80, (count + 1) >> 7])
    partitions = (bytes(5) + fields) * count
    with pytest.raises(ProtocolError, match="tagged fields"):
        produce.decode_produce_request(9, memoryview(bytes(7) + b"\x02\x02t" + compact + partitions + bytes(2)))
    partitions = (bytes(32) + fields) * count
    with pytest.raises(ProtocolError, match="tagged fields"):
        fetch.decode_fetch_request(12, memoryview(bytes(25) + b"\x02\x02t" + compact + partitions + bytes(4)))
