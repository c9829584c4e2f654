"""What is in the frames between brokers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ProtocolError
from kompat.protocol.frames import FrameReader
from kompat.raft.links.frames import HEAD_SIZE, Kind, Parcel, head_of, parcel, pieces, raft_parcel, read_raft
from tests.protocol.test_frames import feed

LIMIT = 1 << 20
payloads = st.lists(st.binary(max_size=50), max_size=8)


def received(sent: Parcel) -> memoryview:
    """As the other side has it."""
    buffers, size = sent
    wire = b"".join(buffers)
    assert len(wire) == size
    [frame] = feed(FrameReader(LIMIT), wire, 64)
    return frame


@given(group=st.binary(max_size=255), header=st.binary(max_size=100), payloads=payloads)
def test_a_raft_message_arrives_as_it_was_sent(group: bytes, header: bytes, payloads: list[bytes]) -> None:
    frame = received(raft_parcel(group, header, payloads))
    got_group, got_header, got_payloads = read_raft(frame)

    assert (got_group, bytes(got_header), [bytes(each) for each in got_payloads]) == (group, header, payloads)
    assert all(each.obj is frame.obj for each in [got_header, *got_payloads])  # not copied


def test_payloads_leave_as_the_buffers_they_are() -> None:
    payload = bytearray(100)
    buffers, _ = raft_parcel(b"group", b"header", [payload, memoryview(payload)[:50]])

    assert buffers[1] is payload
    assert len(buffers) == 3


@settings(max_examples=300)
@given(data=st.binary(min_size=7, max_size=120))
def test_any_bytes_are_a_raft_message_or_an_error(data: bytes) -> None:
    frame = memoryview(bytes([Kind.RAFT]) + data)
    try:
        group, header, found = read_raft(frame)
    except ProtocolError:
        return
    assert HEAD_SIZE + 4 * len(found) + len(group) + len(header) + sum(map(len, found)) == len(frame)


@pytest.mark.parametrize("group", [bytes(256), bytes(1000)])
def test_a_group_name_that_does_not_fit_is_not_sent(group: bytes) -> None:
    with pytest.raises(ValueError, match="no Raft message"):
        raft_parcel(group, b"", [])


@given(body=payloads, number=st.integers(0, 2**32 - 1), code=st.integers(0, 2**16 - 1), flags=st.integers(0, 255))
def test_other_frames_arrive_as_they_were_sent(body: list[bytes], number: int, code: int, flags: int) -> None:
    frame = received(parcel(Kind.REQUEST, number, body, code=code, flags=flags))

    assert head_of(frame) == (Kind.REQUEST, flags, code, number)
    assert bytes(frame[HEAD_SIZE:]) == b"".join(body)


@given(body=payloads, most=st.integers(1, 60))
def test_pieces_are_the_body_cut_as_large_as_they_may_be(body: list[bytes], most: int) -> None:
    cut = list(pieces(body, most))

    assert b"".join(b"".join(piece) for piece, _ in cut) == b"".join(body)
    assert [is_more for _, is_more in cut] == [True] * (len(cut) - 1) + [False]
    assert all(sum(map(len, piece)) == most for piece, _ in cut[:-1])
    assert sum(map(len, cut[-1][0])) <= most
