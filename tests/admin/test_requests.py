"""Requests that a broker sends itself are read as a client's are, and what comes back as a client reads it."""

from typing import Any
from uuid import UUID

import pytest

from kompat.admin.requests import NAMED, joined
from kompat.handlers import APIS
from kompat.handlers.support.base import Api
from kompat.protocol.api_keys import ApiKey
from kompat.protocol.codec import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kompat.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, decode_fetch_request
from kompat.protocol.messages import classes
from kompat.protocol.produce import PartitionData, ProduceRequest, TopicData, decode_produce_request

VERSIONS = [
    pytest.param(api, version, id=f"{api.name} v{version}")
    for api in APIS
    for version in (api.versions.low, NAMED.get(api.key, api.versions.high))
]


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_what_is_sent_is_read(api: Api, version: int) -> None:
    request, response = classes(api.key)
    frame = memoryview(encode_request(request, version, request(), correlation_id=7, client_id="me"))

    header, position = decode_request_header(frame)

    assert (header.api_key, header.api_version, header.client_id, header.correlation_id) == (api.key, version, "me", 7)
    assert decode_request(request, version, frame[position:]) == request()
    if api.name != "ApiVersions":  # whose header is never a new one
        answer = memoryview(b"".join(encode_response(7, response, version, response())))
        assert decode_response(response, version, answer) == response()


def test_produce_and_fetch_are_read_by_their_own_codecs() -> None:
    no_id = UUID(int=0)
    produce = ProduceRequest(None, -1, 1000, [TopicData("t", no_id, [PartitionData(3, memoryview(b"batch"))])])
    frame = memoryview(encode_request(classes(ApiKey.Produce)[0], NAMED[ApiKey.Produce], produce))
    read = decode_produce_request(NAMED[ApiKey.Produce], frame[decode_request_header(frame)[1] :])
    assert (read.acks, read.topic_data[0].name, read.topic_data[0].partition_data[0].records) == (-1, "t", b"batch")

    fetch = FetchRequest([FetchTopic("t", no_id, [FetchPartition(2, 5, 100)])])
    fetch.max_wait_ms = 77
    frame = memoryview(encode_request(classes(ApiKey.Fetch)[0], NAMED[ApiKey.Fetch], fetch))
    asked = decode_fetch_request(NAMED[ApiKey.Fetch], frame[decode_request_header(frame)[1] :])
    assert (asked.max_wait_ms, asked.topics[0].topic, asked.topics[0].partitions[0].fetch_offset) == (77, "t", 5)


@pytest.mark.parametrize("records", [None, b"ab", memoryview(b"ab"), [b"a", memoryview(b"b")], ()])
def test_records_are_one_piece(records: Any) -> None:
    assert joined(records) in (b"", b"ab")
