"""Streams between brokers: as fast as they are read, with Raft messages passing between their pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ErrorCode, KafkaError, PeerBusy, PeerFailed, PeerUnavailable, ProtocolError
from kompat.raft.links import calls
from kompat.raft.links.frames import PIECE, Kind, parcel
from kompat.raft.links.streams import WINDOW, Assembly, Incoming, cost
from kompat.types import Buffer, NodeId
from tests.raft.peering import ONE, TWO, Broker, raw_peer, two_brokers, until

COPY = 1
MIB = 1024 * 1024


class Reader:
    """Reads a stream, chunk by chunk, when it is allowed to."""

    def __init__(self, *, is_free: bool = True) -> None:
        self.heads: list[bytes] = []
        self.chunks: list[bytes] = []
        self.error: Exception | None = None
        self.free = asyncio.Event()
        if is_free:
            self.free.set()

    async def __call__(self, _: NodeId, head: bytes, chunks: AsyncIterator[memoryview]) -> bytes:
        self.heads.append(head)
        await self.free.wait()
        try:
            async for chunk in chunks:
                self.chunks.append(bytes(chunk))
        except PeerUnavailable as error:
            self.error = error
            raise
        return b"%d chunks" % len(self.chunks)


class Writer:
    """Counts what was asked of it."""

    def __init__(self, chunks: Sequence[Sequence[Buffer]]) -> None:
        self.given = 0
        self.is_closed = False
        self._chunks = chunks

    async def run(self) -> AsyncIterator[Sequence[Buffer]]:
        try:
            for chunk in self._chunks:
                self.given += 1
                yield chunk
        finally:
            self.is_closed = True


async def test_chunks_arrive_as_they_were_given_whatever_their_size() -> None:
    sizes = [0, 1, PIECE - 1, PIECE, PIECE + 1, WINDOW, 3 * WINDOW, 0, 5, 3 * PIECE]
    async with two_brokers() as (one, two):
        reader = two.peers.on_stream[COPY] = Reader()
        writer = Writer([[bytes([n]) * (size // 2), bytes([n]) * (size - size // 2)] for n, size in enumerate(sizes)])

        assert await one.peers.stream(TWO, COPY, b"head", writer.run()) == b"10 chunks"
        assert reader.heads == [b"head"]
        assert reader.chunks == [bytes([n]) * size for n, size in enumerate(sizes)]
        assert not one.peers._links[TWO].calls._answers
        assert not two.peers._links[ONE].calls._streams


@pytest.mark.parametrize("size", [0, PIECE + 1, 2 * WINDOW])
async def test_a_head_may_be_as_long_as_a_chunk(size: int) -> None:
    head = bytes(range(256)) * (size // 256) + bytes(size % 256)
    async with two_brokers() as (one, two):
        reader = two.peers.on_stream[COPY] = Reader()

        assert await one.peers.stream(TWO, COPY, head, Writer([[b"a"], [b"b"]]).run()) == b"2 chunks"
        assert reader.heads == [head]
        assert reader.chunks == [b"a", b"b"]


async def test_many_streams_at_once_and_both_ways() -> None:
    async with two_brokers() as (one, two):
        readers = []
        for broker in (one, two):
            readers.append(Reader())
            broker.peers.on_stream[COPY] = readers[-1]
        chunk = bytes(100_000)
        streams = [one.peers.stream(TWO, COPY, b"", Writer([[chunk]] * 40).run()) for _ in range(5)]
        streams += [two.peers.stream(ONE, COPY, b"", Writer([[chunk]] * 40).run()) for _ in range(5)]
        await asyncio.gather(*streams)

        assert [len(reader.chunks) for reader in readers] == [200, 200]


async def test_a_slow_reader_holds_its_sender_back() -> None:
    async with two_brokers() as (one, two):
        reader = two.peers.on_stream[COPY] = Reader(is_free=False)
        two.peers.on_call[1] = _tell
        writer = Writer([[bytes(PIECE)]] * 400)
        stream = asyncio.ensure_future(one.peers.stream(TWO, COPY, b"", writer.run()))
        await until(lambda: writer.given > WINDOW // (PIECE + 64))
        for _ in range(50):  # nothing of what follows is held up, and nothing more is asked of the writer
            assert await one.peers.call(TWO, 1, [], 20) == b"told"
        assert one.peers.send_raft(TWO, b"group", b"header", [])
        await until(lambda: len(two.heard) == 1)

        assert writer.given * PIECE <= WINDOW + 2 * PIECE
        assert one.peers._links[TWO].queued_bytes <= MIB
        reader.free.set()
        assert await stream == b"400 chunks"


async def _tell(*_: object) -> Sequence[Buffer]:
    return [b"told"]


async def test_raft_messages_pass_a_stream_that_fills_the_link() -> None:
    """The peer gives endless credit and does not read, so that everything that can fill up does. Then it reads again."""
    async with Broker(ONE) as one, raw_peer(one, receive_buffer=64 * 1024) as peer:
        writer = Writer([[bytes(PIECE)]] * 400)  # 100 MiB
        stream = asyncio.ensure_future(one.peers.stream(peer.node, COPY, b"", writer.run()))
        opened, _ = await peer.next(Kind.OPEN)
        peer.send(parcel(Kind.CREDIT, opened.number, [(1 << 40).to_bytes(8, "big")]))
        link = one.peers._links[peer.node]
        await until(lambda: link._is_paused and bool(link._room))
        assert one.peers.send_raft(peer.node, b"group", b"header", [bytes(100)])

        before = 0
        while (await peer.next(Kind.CHUNK, Kind.RAFT))[0].kind != Kind.RAFT:
            before += PIECE
        assert before <= 16 * MIB  # what sockets held already; the rest of the 100 MiB came later
        while (await peer.next(Kind.CHUNK, Kind.END))[0].kind != Kind.END:
            pass
        peer.send(parcel(Kind.RESPONSE, opened.number, [b"thanks"]))
        assert await stream == b"thanks"


async def test_a_reader_that_has_seen_enough_ends_the_stream() -> None:
    async def first_only(_: NodeId, __: bytes, chunks: AsyncIterator[memoryview]) -> bytes:
        async for chunk in chunks:
            return bytes(chunk)
        return b""

    async def refuses(*_: object) -> bytes:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    async with two_brokers() as (one, two):
        two.peers.on_stream.update({COPY: first_only, 2: refuses})
        writer = Writer([[b"%d" % n, bytes(PIECE)] for n in range(100)])
        answer = await one.peers.stream(TWO, COPY, b"", writer.run())
        assert bytes(answer[:1]) == b"0"
        assert writer.is_closed
        assert writer.given < 100

        with pytest.raises(KafkaError, match="no room"):
            await one.peers.stream(TWO, 2, b"", Writer([[bytes(PIECE)]] * 100).run())
        with pytest.raises(PeerFailed, match="does not know"):
            await one.peers.stream(TWO, 99, b"", Writer([[bytes(PIECE)]] * 100).run())
        assert one.events == [("up", TWO)]


async def test_a_sender_that_fails_ends_the_stream_at_the_reader() -> None:
    async def breaks() -> AsyncIterator[Sequence[Buffer]]:
        yield [b"something"]
        await until(lambda: bool(reader.chunks))
        raise LookupError("the rest")

    async with two_brokers() as (one, two):
        reader = two.peers.on_stream[COPY] = Reader()
        with pytest.raises(LookupError, match="the rest"):
            await one.peers.stream(TWO, COPY, b"", breaks())
        await until(lambda: reader.error is not None)
        await until(lambda: not two.peers._links[ONE].calls._streams)


async def test_a_stream_that_is_cancelled_ends_at_both_sides() -> None:
    async with two_brokers() as (one, two):
        reader = two.peers.on_stream[COPY] = Reader(is_free=False)
        writer = Writer([[bytes(PIECE)]] * 100)
        stream = asyncio.ensure_future(one.peers.stream(TWO, COPY, b"", writer.run()))
        await until(lambda: bool(reader.heads))
        stream.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream
        assert writer.is_closed

        reader.free.set()
        await until(lambda: reader.error is not None)


async def test_a_lost_link_ends_streams_at_both_sides() -> None:
    async with two_brokers() as (one, two):
        reader = two.peers.on_stream[COPY] = Reader(is_free=False)
        writer = Writer([[bytes(PIECE)]] * 100)
        stream = asyncio.ensure_future(one.peers.stream(TWO, COPY, b"", writer.run()))
        await until(lambda: bool(reader.heads) and writer.given > 1)
        two.peers.forget(ONE)
        with pytest.raises(PeerUnavailable):
            await stream
        assert writer.is_closed

        reader.free.set()
        await until(lambda: reader.error is not None)


async def test_too_many_streams_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MOST_STREAMS", 1)
    async with two_brokers() as (one, two):
        reader = two.peers.on_stream[COPY] = Reader(is_free=False)
        first = asyncio.ensure_future(one.peers.stream(TWO, COPY, b"", Writer([]).run()))
        await until(lambda: bool(reader.heads))
        with pytest.raises(PeerBusy):
            await one.peers.stream(TWO, COPY, b"", Writer([[b"chunk"]]).run())
        reader.free.set()
        assert await first == b"0 chunks"


async def test_a_sender_that_goes_on_without_credit_is_cut_off() -> None:
    async with Broker(ONE) as one, raw_peer(one) as peer:
        one.peers.on_stream[COPY] = Reader(is_free=False)
        peer.send(parcel(Kind.OPEN, 1, [b"head"], code=COPY))
        for _ in range(2 * WINDOW // PIECE):
            peer.send(parcel(Kind.CHUNK, 1, [bytes(PIECE)]))

        assert await peer.is_closed()


# -- the two ends, without a link ----------------------------------------------------------------------------------------
@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(0, WINDOW // 2), max_size=20), reads=st.lists(st.booleans(), max_size=40))
def test_credit_never_runs_out_for_ever_and_holds_the_sender_to_its_window(sizes: list[int], reads: list[bool]) -> None:
    """A sender as `Calls.stream` is, step by step, and a reader that reads now and then."""
    credit = WINDOW

    def give(amount: int) -> None:
        nonlocal credit
        credit += amount

    stream = Incoming(1 << 30, give)
    left = list(sizes)
    got: list[int] = []
    block = memoryview(bytes(WINDOW // 2))

    async def read_one() -> None:
        got.append(len(await anext(stream)))

    def step(is_read: bool) -> None:
        if left and credit > 0:
            size = left.pop(0)
            credit_spent(cost(size))
            stream.feed(block[:size], is_last=True)
        if is_read and stream._chunks:
            with pytest.raises(StopIteration):  # a chunk is there, so it does not wait
                read_one().send(None)
        assert stream._held <= WINDOW + cost(WINDOW // 2)

    def credit_spent(amount: int) -> None:
        nonlocal credit
        credit -= amount

    for is_read in reads:
        step(is_read)
    for _ in range(2 * len(sizes)):
        step(is_read=True)

    assert got == sizes


def test_a_body_above_the_limit_is_refused_before_it_is_whole() -> None:
    assembly = Assembly(100)
    assert assembly.add(memoryview(bytes(60)), is_last=False) is None
    with pytest.raises(ProtocolError, match="above the limit"):
        assembly.add(memoryview(bytes(60)), is_last=False)


def test_a_body_that_comes_whole_is_not_copied() -> None:
    piece = memoryview(bytearray(b"whole"))
    assert Assembly(100).add(piece, is_last=True) is piece
