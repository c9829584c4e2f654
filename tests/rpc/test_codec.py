"""Requests and replies as bytes."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.errors import ErrorCode, KafkaError, ProtocolError
from kompat.protocol.records import Record
from kompat.rpc import codec
from kompat.rpc.messages import BrokerRequest, LeaderRequest, reply_type
from kompat.types import LogId, Offset


class Pair(NamedTuple):
    first: int
    second: UUID


class Everything(LeaderRequest[dict[str, list[Record]]], frozen=True):
    log_id: LogId
    offset: Offset
    batch: bytes
    pair: Pair
    outcomes: list[KafkaError | None]
    records: list[Record]
    text: str | None = None


class Nothing(BrokerRequest[None], frozen=True):
    pass


records = st.builds(
    Record,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.lists(st.tuples(st.text(), st.none() | st.binary())),
)


@given(st.lists(records), st.binary(), st.uuids(), st.text(), st.integers(0, 2**31 - 1))
def test_what_is_encoded_is_decoded(found: list[Record], batch: bytes, some: UUID, text: str, number: int) -> None:
    outcomes = [None, KafkaError(ErrorCode.NOT_CONTROLLER, text)]
    request = Everything(LogId(some, number), Offset(number), batch, Pair(number, some), outcomes, found, text)

    again = codec.decode(Everything, codec.encode(request))

    assert (again.log_id, again.offset, again.batch, again.pair) == (
        request.log_id,
        request.offset,
        batch,
        request.pair,
    )
    assert (again.records, again.text) == (found, text)
    assert [None if each is None else (each.code, each.message) for each in again.outcomes] == [
        None,
        (ErrorCode.NOT_CONTROLLER, text),
    ]


def test_a_reply_has_the_type_that_its_request_names() -> None:
    assert reply_type(Everything) == dict[str, list[Record]]
    assert reply_type(Nothing) is type(None)
    reply = {"a": [Record(1, 2, None, b"v")]}
    assert codec.decode(reply_type(Everything), codec.encode(reply)) == {"a": [Record(1, 2, None, b"v", [])]}


@pytest.mark.parametrize("body", [b"", b"\xc1", codec.encode({"unheard": "of"}), codec.encode(7)])
def test_what_is_no_request_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="that is no Everything of this version"):
        codec.decode(Everything, body)


def test_what_has_no_bytes_is_not_sent() -> None:
    with pytest.raises(NotImplementedError, match="object cannot be sent to another broker"):
        codec.encode([object()])
