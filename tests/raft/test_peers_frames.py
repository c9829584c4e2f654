"""What is in the frames between brokers, and the order in which they leave."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ProtocolError
from kompat.protocol.frames import FrameReader
from kompat.raft.links.frames import HEAD_SIZE, Kind, Parcel, head_of, parcel, pieces, raft_parcel, read_raft
from kompat.raft.links.outbox import PATIENCE, Lane, Outbox
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


# -- the outbox ----------------------------------------------------------------------------------------------------------
def named(lane: Lane, number: int, size: int) -> Parcel:
    return [(lane, number), b""], size  # type: ignore[list-item]


def taken(outbox: Outbox, most: int) -> list[tuple[Lane, int]]:
    return outbox.take(most)[::2]  # type: ignore[return-value]


def test_what_is_urgent_goes_first_and_streams_last() -> None:
    outbox = Outbox(1 << 30)
    for lane in (Lane.BULK, Lane.CALLS, Lane.RAFT, Lane.URGENT):
        outbox.add(lane, named(lane, 0, 10))

    assert [lane for lane, _ in taken(outbox, 1000)] == [Lane.URGENT, Lane.RAFT, Lane.CALLS, Lane.BULK]
    assert outbox.size == 0


def test_those_who_are_patient_are_not_starved() -> None:
    outbox = Outbox(1 << 40)
    for number in range(100):
        outbox.add(Lane.RAFT, named(Lane.RAFT, number, PATIENCE // 4))
        outbox.add(Lane.BULK, named(Lane.BULK, number, 10))
        outbox.add(Lane.CALLS, named(Lane.CALLS, number, 10))

    order = [lane for lane, _ in taken(outbox, 100 * PATIENCE // 4)]

    assert order[:10] == [*[Lane.RAFT] * 4, Lane.BULK, *[Lane.RAFT] * 4, Lane.CALLS]
    assert order.count(Lane.BULK) >= 12
    assert order.count(Lane.CALLS) >= 12


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(list(Lane)), st.integers(1, 3000)), st.tuples(st.just(None), st.integers(1, 5000))
    ),
    max_size=80,
)


@settings(max_examples=200)
@given(steps=steps)
def test_the_outbox_keeps_its_bounds_and_each_lane_its_order(steps: list[tuple[Lane | None, int]]) -> None:
    limit = 8000
    outbox = Outbox(limit)
    offered: dict[Lane, list[int]] = {lane: [] for lane in Lane}
    got: dict[Lane, list[int]] = {lane: [] for lane in Lane}
    for number, (lane, size) in enumerate(steps):
        if lane is None:
            for each, which in taken(outbox, size):
                got[each].append(which)
        elif outbox.offer(lane, named(lane, number, size)):
            offered[lane].append(number)
        assert outbox.size <= limit + len(Lane) * 3000  # a lane that is empty takes one of any size
    while outbox.size:
        for each, which in taken(outbox, 1):
            got[each].append(which)

    assert got == offered
