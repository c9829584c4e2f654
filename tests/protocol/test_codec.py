"""Every API in every version: there and back, and byte for byte what kafka-python's codec makes of it."""

import time
from collections.abc import Generator
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ProtocolError
from kompat.protocol import messages
from kompat.protocol.api_keys import ApiKey
from kompat.protocol.codec import (
    decode_request,
    decode_request_header,
    decode_request_in_steps,
    encode_response,
    encode_response_in_steps,
    frame_response,
    is_flexible,
)
from kompat.protocol.messages.encoder import Encoder
from kompat.protocol.wire import write_uvarint
from tests.protocol.samples import SERVED, kafka_python, message, mutated

MESSAGES = [f"{key.name}{kind}" for key in SERVED for kind in ("Request", "Response")]
REFERENCE = kafka_python()
seeds = st.integers(0, 2**32)
MANY = 1_000_000
DEFINITIONS = Path(messages.__file__).with_name("definitions")


def versions_of(made: Any) -> range:
    served = SERVED[made.SCHEMA.api_key]
    return range(served.low, served.high + 1)


def encode(made: Any, version: int, value: Any) -> bytes:
    out = bytearray()
    Encoder(version, flexible=made.is_flexible(version)).struct(made.SCHEMA.struct)(out, value)
    return bytes(out)


@pytest.mark.parametrize("name", MESSAGES)
def test_every_version_of_a_message_survives_the_round_trip(name: str) -> None:
    made = messages.message_class(name)

    for version in versions_of(made):
        for seed in range(4):
            value = message(Random(seed), made, made.SCHEMA.struct, version)
            assert decode_request(made, version, memoryview(encode(made, version, value))) == value


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_the_same_in_steps(name: str) -> None:
    made = messages.message_class(name)

    for version in versions_of(made):
        for seed in range(4):
            value = message(Random(seed), made, made.SCHEMA.struct, version)
            body = memoryview(encode(made, version, value))
            assert result_of(decode_request_in_steps(made, version, body, MANY)) == value
            assert result_of(encode_response_in_steps(7, made, version, value)) == encode_response(
                7, made, version, value
            )


def result_of(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def test_more_items_than_allowed_are_refused_before_they_are_made() -> None:
    topics = [messages.DeleteTopicsRequest.DeleteTopicState(name=f"t{number}") for number in range(11)]
    body = memoryview(encode(messages.DeleteTopicsRequest, 6, messages.DeleteTopicsRequest(topics=topics)))

    steps = decode_request_in_steps(messages.DeleteTopicsRequest, 6, body, 10)
    with pytest.raises(ProtocolError, match="more than 10 items"):
        next(steps)
    assert len(result_of(decode_request_in_steps(messages.DeleteTopicsRequest, 6, body, 11)).topics) == 11


def test_a_long_message_has_many_steps() -> None:
    topics = [messages.DeleteTopicsRequest.DeleteTopicState(name=f"t{number}") for number in range(1_000)]
    request = messages.DeleteTopicsRequest(topics=topics)
    body = memoryview(encode(messages.DeleteTopicsRequest, 6, request))

    assert sum(1 for _ in decode_request_in_steps(messages.DeleteTopicsRequest, 6, body, MANY)) > 30
    assert sum(1 for _ in encode_response_in_steps(7, messages.DeleteTopicsRequest, 6, request)) > 30


def as_reference(reference: Any, value: Any, version: int) -> Any:
    """The same contents in kafka-python's class."""
    fields = {}
    for field in reference._struct.fields.values():
        part = getattr(value, field.name)
        if not field.for_version_q(version) or part is None:
            fields[field.name] = part
        elif field.is_struct():
            fields[field.name] = as_reference(field.data_class, part, version)
        elif field.is_struct_array():
            fields[field.name] = [as_reference(field.data_class, item, version) for item in part]
        else:
            fields[field.name] = part
    return reference(version=version, **fields)


@pytest.mark.parametrize("name", [name for name in MESSAGES if name in REFERENCE])
def test_the_bytes_are_those_of_kafka_python(name: str) -> None:
    made, reference = messages.message_class(name), REFERENCE[name]

    for version in versions_of(made):
        for seed in range(2):
            value = message(Random(seed), made, made.SCHEMA.struct, version)
            expected = bytes(as_reference(reference, value, version).encode(version=version))
            assert encode(made, version, value) == expected, version


def test_only_what_kafka_python_lacks_is_defined_here() -> None:
    ours = {name for name in MESSAGES if name not in REFERENCE}

    assert {path.stem for path in DEFINITIONS.glob("*.json")} == ours


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_damaged_requests_are_refused_or_understood_and_nothing_else(seed: int) -> None:
    rng = Random(seed)
    for key in SERVED:
        made = messages.classes(key)[0]
        version = rng.choice(versions_of(made))
        body = mutated(rng, encode(made, version, message(rng, made, made.SCHEMA.struct, version)))
        try:
            decode_request(made, version, memoryview(body))
        except ProtocolError:
            continue


@settings(max_examples=60, deadline=None)
@given(body=st.binary(max_size=300), key=st.sampled_from(sorted(SERVED)))
def test_random_bytes_are_refused_or_understood_and_nothing_else(body: bytes, key: ApiKey) -> None:
    made = messages.classes(key)[0]
    for version in versions_of(made):
        try:
            decode_request(made, version, memoryview(body))
        except ProtocolError:
            continue


@pytest.mark.parametrize(
    ("version", "body"),
    [
        pytest.param(1, pack(">i", 2**31 - 1) + bytes(50), id="array length"),
        pytest.param(9, b"\xff\xff\xff\xff\x0f" + bytes(50), id="compact array length"),
        pytest.param(1, pack(">ih", 1, 32767) + bytes(50), id="string length"),
        pytest.param(9, b"\x02\xff\xff\x7f" + bytes(50), id="compact string length"),
        pytest.param(1, pack(">ih", 1, -2) + bytes(50), id="negative string length"),
        pytest.param(1, pack(">i", -2) + bytes(50), id="negative array length"),
        pytest.param(9, b"\xff" * 2_000_000, id="varint without end"),
        pytest.param(9, b"\x01\x00\x00\x00\xff\xff\xff\xff\x0f" + bytes(50), id="number of tags"),
        pytest.param(9, b"\x02\x02\xff\x00\x01\x00\x00\x00", id="not UTF-8"),
        pytest.param(1, pack(">ih", 1, -1), id="null where a name has to be"),
    ],
)
def test_lengths_that_lie_are_refused_at_once(version: int, body: bytes) -> None:
    began = time.thread_time()

    with pytest.raises(ProtocolError):
        decode_request(messages.MetadataRequest, version, memoryview(body))

    assert time.thread_time() - began < 0.5


def test_many_small_tag_sections_take_time_in_proportion() -> None:
    topic = b"\x00" * 16 + b"\x02a" + b"\x01\x63\x00"  # id, name, one unknown tag without contents
    count = 20_000
    head = bytearray()
    for value in (count + 1,):
        while value >= 0x80:
            head.append(value & 0x7F | 0x80)
            value >>= 7
        head.append(value)
    body = bytes(head) + topic * count + b"\x01\x00\x00"

    began = time.thread_time()
    request = decode_request(messages.MetadataRequest, 12, memoryview(body))

    assert len(request.topics) == count
    assert time.thread_time() - began < 2


# -- headers ---------------------------------------------------------------------------------------------------------
def test_a_header_says_what_is_asked_and_by_whom() -> None:
    header, position = decode_request_header(memoryview(pack(">hhih4s", 3, 1, 77, 4, b"kcat") + b"body"))

    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (3, 1, 77, "kcat")
    assert position == 14


def test_a_flexible_header_has_tagged_fields_which_are_passed_over() -> None:
    frame = memoryview(pack(">hhih", 3, 9, 77, -1) + b"\x01\x05\x02ab" + b"body")

    header, position = decode_request_header(frame)

    assert header.client_id is None
    assert bytes(frame[position:]) == b"body"


@pytest.mark.parametrize("key", [-1, 999])
def test_the_header_of_an_unknown_api_can_be_read(key: int) -> None:
    header, _ = decode_request_header(memoryview(pack(">hhih", key, 0, 5, -1) + bytes(4)))

    assert (header.api_key, header.correlation_id) == (key, 5)


@settings(max_examples=100, deadline=None)
@given(frame=st.binary(max_size=40))
def test_a_header_of_random_bytes_is_refused_or_understood(frame: bytes) -> None:
    try:
        decode_request_header(memoryview(frame))
    except ProtocolError:
        return


def test_headers_are_flexible_where_bodies_are() -> None:
    for key in SERVED:
        for made in messages.classes(key):
            for version in range(made.SCHEMA.versions.high + 1):
                assert is_flexible(key, version) == made.is_flexible(version), (key, version)


# -- responses -------------------------------------------------------------------------------------------------------
def test_a_response_begins_with_its_length_and_correlation_id() -> None:
    response = messages.HeartbeatResponse(throttle_time_ms=5, error_code=27)

    assert b"".join(encode_response(99, messages.HeartbeatResponse, 3, response)) == pack(">iiih", 10, 99, 5, 27)
    assert b"".join(encode_response(99, messages.HeartbeatResponse, 4, response)) == pack(">iixihx", 12, 99, 5, 27)


def test_the_header_of_an_api_versions_response_is_never_flexible() -> None:
    response = messages.ApiVersionsResponse(error_code=35)
    [data] = encode_response(1, messages.ApiVersionsResponse, 3, response)

    assert bytes(data[8:10]) == pack(">h", 35)


def test_a_body_made_elsewhere_is_framed_without_being_joined() -> None:
    body = [b"abc", memoryview(b"defg")]

    plain = frame_response(7, 0, 8, list(body))
    flexible = frame_response(7, 0, 9, list(body))

    assert plain[1:] == flexible[1:] == body
    assert plain[0] == pack(">ii", 11, 7)
    assert flexible[0] == pack(">iix", 12, 7)


def test_fields_outside_a_version_have_their_defaults() -> None:
    request = decode_request(messages.MetadataRequest, 0, memoryview(pack(">i", 0)))

    assert request.topics == []
    assert request.allow_auto_topic_creation is True
    assert request.include_topic_authorized_operations is False


def test_an_unknown_message_is_no_attribute() -> None:
    assert not hasattr(messages, "NoSuchRequest")


@pytest.mark.parametrize("tags", [65, 260_000])
def test_tagged_fields_without_end_are_refused_before_they_are_read(tags: int) -> None:
    header = pack(">hhih", 18, 3, 7, -1)
    count = bytearray()
    write_uvarint(count, tags)

    with pytest.raises(ProtocolError, match="tagged fields"):
        decode_request_header(memoryview(header + count + b"\x00\x00" * tags))


def test_a_few_tagged_fields_that_nobody_knows_are_passed_over() -> None:
    header = pack(">hhih", 18, 3, 7, -1) + bytes([64]) + b"\x05\x02ab" * 64

    assert decode_request_header(memoryview(header + b"body"))[1] == len(header)
