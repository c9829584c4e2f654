"""Frames, fed whole, byte by byte and in odd pieces."""

import weakref
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ProtocolError
from kompat.protocol import frames as pool
from kompat.protocol.frames import FIRST_ROOM, MOST_ROOM, POOLED_SIZE, FrameReader

LIMIT = 10_000_000
bodies = st.lists(st.binary(min_size=8, max_size=60), max_size=12)


def stream_of(frames: list[bytes]) -> bytes:
    return b"".join(pack(">i", len(frame)) + frame for frame in frames)


def feed(reader: FrameReader, data: bytes, piece: int) -> list[memoryview]:
    """Hand `data` over as a socket would: at most `piece` bytes at a time, never more than the buffer takes."""
    frames = []
    pos = 0
    while pos < len(data):
        buffer = reader.get_buffer(-1)
        assert len(buffer) > 0
        count = min(piece, len(buffer), len(data) - pos)
        buffer[:count] = data[pos : pos + count]
        frames += reader.received(count)
        pos += count
    return frames


@settings(max_examples=60, deadline=None)
@given(frames=bodies, piece=st.integers(1, 200))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(frames: list[bytes], piece: int) -> None:
    reader = FrameReader(LIMIT)

    assert [bytes(frame) for frame in feed(reader, stream_of(frames), piece)] == frames
    assert reader.pending == 0


@settings(max_examples=30, deadline=None)
@given(frames=bodies, rest=st.binary(min_size=8, max_size=40), cut=st.integers(1, 11))
def test_the_beginning_of_a_frame_waits_for_its_end(frames: list[bytes], rest: bytes, cut: int) -> None:
    reader = FrameReader(LIMIT)
    whole = stream_of([*frames, rest])
    boundary = len(whole) - cut

    assert [bytes(frame) for frame in feed(reader, whole[:boundary], POOLED_SIZE)] == frames
    assert reader.pending == len(rest) + 4 - cut
    assert [bytes(frame) for frame in feed(reader, whole[boundary:], POOLED_SIZE)] == [rest]


@pytest.mark.parametrize("size", [POOLED_SIZE - 4, POOLED_SIZE, MOST_ROOM, MOST_ROOM + 1, 3 * MOST_ROOM])
def test_a_large_frame_arrives_whole_with_small_ones_around_it(size: int) -> None:
    large = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    frames = [b"before..", large, b"behind.."]

    got = feed(FrameReader(LIMIT), stream_of(frames), 50_000)

    assert [bytes(frame) for frame in got] == frames


def test_a_promised_length_is_not_paid_for_in_advance() -> None:
    reader = FrameReader(2**31 - 1)
    feed(reader, pack(">i", 2**31 - 1) + b"x", 5)

    assert len(reader.get_buffer(-1)) + 1 == reader.room == FIRST_ROOM
    assert reader.promised == 2**31 - 1
    assert reader.lacking == 2**31 - 2


@pytest.mark.parametrize("has_sent_long_ones", [False, True])
def test_a_frame_takes_no_more_than_twice_of_what_has_come_or_than_the_one_before(has_sent_long_ones: bool) -> None:
    reader = FrameReader(LIMIT)
    usual = 0
    if has_sent_long_ones:
        usual = 300_000
        feed(reader, stream_of([bytes(usual)]), POOLED_SIZE)
        assert reader.room == 0
    whole = stream_of([bytes(5_000_000)])
    for pos in range(0, 4_990_000, 10_000):
        assert not feed(reader, whole[pos : pos + 10_000], 10_000)
        assert reader.room <= max(FIRST_ROOM, usual, 2 * (pos + 10_000))

    assert [len(frame) for frame in feed(reader, whole[4_990_000:], POOLED_SIZE)] == [5_000_000]
    assert reader.room == reader.lacking == reader.promised == 0


def test_a_reader_that_is_closed_keeps_nothing_and_gives_its_buffer_back() -> None:
    pool._pool.clear()
    between, within = FrameReader(LIMIT), FrameReader(LIMIT)
    between.get_buffer(-1)
    feed(within, pack(">i", 100_000) + bytes(50_000), POOLED_SIZE)
    assert within._frame is not None
    frame = weakref.ref(within._frame)

    between.close()
    within.close()

    assert len(pool._pool) == 2
    assert frame() is None
    assert within.room == within.pending == 0


def test_frames_own_their_bytes_and_can_be_written_to() -> None:
    reader = FrameReader(LIMIT)
    [first] = feed(reader, stream_of([b"a" * 20]), 100)
    first[:4] = b"edit"
    [second] = feed(reader, stream_of([b"b" * 20]), 100)

    assert bytes(first) == b"edit" + b"a" * 16
    assert bytes(second) == b"b" * 20


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 7, LIMIT + 1, 2**31 - 1])
@pytest.mark.parametrize("piece", [1, 100])
def test_an_impossible_length_is_refused(length: int, piece: int) -> None:
    with pytest.raises(ProtocolError):
        feed(FrameReader(LIMIT), stream_of([b"a good one"]) + pack(">i", length) + bytes(8), piece)


def test_connections_share_buffers_but_not_bytes() -> None:
    one, two = FrameReader(LIMIT), FrameReader(LIMIT)
    data = {one: stream_of([b"1" * 30]), two: stream_of([b"2" * 30])}
    got: dict[FrameReader, list[memoryview]] = {one: [], two: []}
    for pos in range(34):
        for reader in (one, two):
            got[reader] += feed(reader, data[reader][pos : pos + 1], 1)

    assert bytes(got[one][0]) == b"1" * 30
    assert bytes(got[two][0]) == b"2" * 30
