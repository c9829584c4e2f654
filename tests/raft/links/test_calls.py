"""Calls between brokers: every one gets an answer, or an error that says what happened."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Sequence

import pytest

from kompat.errors import (
    ErrorCode,
    KafkaError,
    PeerBusy,
    PeerFailed,
    PeerTimeout,
    PeerUnavailable,
    ProtocolError,
)
from kompat.raft.links import calls
from kompat.raft.links.calls import Handlers
from kompat.raft.links.frames import MORE, PIECE, Kind, Parcel, Status, head_of, parcel
from kompat.raft.links.outbox import Lane
from kompat.types import Buffer, NodeId
from tests.raft.peering import ONE, THREE, TWO, Broker, raw_peer, two_brokers, until

ECHO, HELD, WRONG, REFUSED, LONG = 1, 2, 3, 4, 5
MIB = 1024 * 1024


class Held:
    """A handler whose answers wait until they are let go."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.ended: list[bytes] = []
        self.go = asyncio.Event()

    async def __call__(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        self.begun.append(bytes(body))
        await self.go.wait()
        self.ended.append(bytes(body))
        return [b"at last ", body]


async def echo(node: NodeId, body: memoryview) -> Sequence[Buffer]:
    return [b"%d:" % node, body]


async def test_calls_are_answered_both_ways_and_many_at_once() -> None:
    async with two_brokers() as (one, two):
        one.peers.on_call[ECHO] = two.peers.on_call[ECHO] = echo

        assert await one.peers.call(TWO, ECHO, [b"hello", b" ", b"two"], 20) == b"1:hello two"
        assert await two.peers.call(ONE, ECHO, [], 20) == b"2:"
        answers = await asyncio.gather(*(one.peers.call(TWO, ECHO, [b"%d" % n], 20) for n in range(500)))
        assert [bytes(each) for each in answers] == [b"1:%d" % n for n in range(500)]


@pytest.mark.parametrize("size", [PIECE - 1, PIECE, PIECE + 1, 5 * MIB])
async def test_large_bodies_go_in_pieces_and_come_back_whole(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    async with two_brokers(queue_bytes=8 * MIB) as (one, two):
        two.peers.on_call[ECHO] = echo
        answers = await asyncio.gather(*(one.peers.call(TWO, ECHO, [body, b"%d" % n], 20) for n in range(3)))

        assert [bytes(each) for each in answers] == [b"1:" + body + b"%d" % n for n in range(3)]
        assert all(not each.readonly for each in answers)  # as slices of frames are
        assert not one.peers._links[TWO].calls._answers
        assert two.peers._links[ONE].calls._held == 0


async def test_a_body_above_the_limit_is_not_sent_and_an_answer_above_it_fails() -> None:
    async def too_long(*_: object) -> Sequence[Buffer]:
        return [bytes(MIB + 1)]

    async with two_brokers(max_frame=MIB) as (one, two):
        two.peers.on_call[LONG] = too_long
        with pytest.raises(ValueError, match="above the limit"):
            await one.peers.call(TWO, LONG, [bytes(MIB + 1)], 20)
        with pytest.raises(PeerFailed):
            await one.peers.call(TWO, LONG, [b"question"], 20)
        assert one.events == [("up", TWO)]


async def test_what_a_handler_raises_reaches_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    async def wrong(*_: object) -> Sequence[Buffer]:
        raise LookupError("with details that are nobody's business")

    async def refused(*_: object) -> Sequence[Buffer]:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "node 3 is")

    async with two_brokers() as (one, two):
        two.peers.on_call.update({WRONG: wrong, REFUSED: refused, ECHO: echo})
        with pytest.raises(PeerFailed, match="node 2: LookupError, see its log"):
            await one.peers.call(TWO, WRONG, [], 20)
        with pytest.raises(KafkaError, match="node 3 is") as raised:
            await one.peers.call(TWO, REFUSED, [], 20)
        assert raised.value.code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(PeerFailed, match="does not know"):
            await one.peers.call(TWO, 99, [], 20)
        assert await one.peers.call(TWO, ECHO, [], 20) == b"1:"  # the link has not suffered

    assert [each.levelno for each in caplog.records].count(logging.ERROR) == 1


async def test_a_call_that_takes_too_long_is_given_up_and_its_answer_is_not_sent() -> None:
    async with two_brokers() as (one, two):
        held = two.peers.on_call[HELD] = Held()
        two.peers.on_call[ECHO] = echo
        with pytest.raises(PeerTimeout):
            await one.peers.call(TWO, HELD, [b"question"], 0.05)
        await until(lambda: bool(two.peers._links[ONE].calls._unwanted))  # it heard that nobody waits
        held.go.set()
        await until(lambda: held.ended == [b"question"])  # and finished what it had begun

        assert await one.peers.call(TWO, ECHO, [], 20) == b"1:"
        assert not one.peers._links[TWO].calls._answers


async def test_a_call_that_is_cancelled_leaves_nothing_behind() -> None:
    async with two_brokers() as (one, two):
        held = two.peers.on_call[HELD] = Held()
        call = asyncio.ensure_future(one.peers.call(TWO, HELD, [b"question"], 20))
        await until(lambda: bool(held.begun))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        assert not one.peers._links[TWO].calls._answers
        await until(lambda: bool(two.peers._links[ONE].calls._unwanted))
        assert two.peers._links[ONE].calls._serving  # it counts until it ends
        held.go.set()
        await until(lambda: not two.peers._links[ONE].calls._serving)
        assert not two.peers._links[ONE].calls._unwanted


async def test_without_a_link_a_call_fails_at_once() -> None:
    async with Broker(ONE) as one:
        with pytest.raises(PeerUnavailable) as raised:
            await one.peers.call(THREE, ECHO, [], 20)
        assert not raised.value.is_sent


async def test_a_link_that_is_lost_ends_the_calls_on_it() -> None:
    async with two_brokers() as (one, two):
        held = two.peers.on_call[HELD] = Held()
        call = asyncio.ensure_future(one.peers.call(TWO, HELD, [b"question"], 20))
        await until(lambda: bool(held.begun))
        two.peers.forget(ONE)

        with pytest.raises(PeerUnavailable) as raised:
            await call
        assert raised.value.is_sent  # it may have been done
        held.go.set()
        await until(lambda: held.ended == [b"question"])


async def test_too_many_calls_are_refused_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MOST_CALLS", 3)
    async with two_brokers() as (one, two):
        held = two.peers.on_call[HELD] = Held()
        waiting = [asyncio.ensure_future(one.peers.call(TWO, HELD, [b"%d" % n], 20)) for n in range(3)]
        await until(lambda: len(held.begun) == 3)
        for body in ([], [bytes(3 * PIECE)]):  # also one in pieces, of which the rest is dropped
            with pytest.raises(PeerBusy) as raised:
                await one.peers.call(TWO, HELD, body, 20)
            assert not raised.value.is_sent
        held.go.set()
        assert len(await asyncio.gather(*waiting)) == 3
        assert await one.peers.call(TWO, HELD, [b"now"], 20) == b"at last now"
        assert two.peers._links[ONE].calls._held == 0


async def test_the_bytes_of_calls_under_way_are_bounded() -> None:
    async with two_brokers(queue_bytes=MIB) as (one, two):
        held = two.peers.on_call[HELD] = Held()
        first = asyncio.ensure_future(one.peers.call(TWO, HELD, [bytes(2 * MIB)], 20))  # one alone may be larger
        await until(lambda: len(held.begun) == 1)
        with pytest.raises(PeerBusy):
            await one.peers.call(TWO, HELD, [bytes(2 * MIB)], 20)
        held.go.set()

        assert len(await first) > MIB
        assert two.peers._links[ONE].calls._held == 0
        assert not two.peers._links[ONE].calls._requests


async def test_a_call_waits_for_room_until_its_time_is_up_and_sends_nothing_late() -> None:
    async with Broker(ONE, queue_bytes=MIB) as one, raw_peer(one, receive_buffer=4096) as peer:
        call = asyncio.ensure_future(one.peers.call(peer.node, ECHO, [bytes(16 * MIB)], 0.3))
        link = one.peers._links[peer.node]
        await until(lambda: bool(link._room))
        assert link.queued_bytes <= MIB
        with pytest.raises(PeerTimeout):
            await call

        kinds = []
        while Kind.CANCEL not in kinds:  # the peer hears of the end right behind the pieces that had left
            head, _ = await peer.next(Kind.REQUEST, Kind.CANCEL)
            kinds.append(Kind(head.kind))
            assert head.kind == Kind.CANCEL or head.flags & MORE
        assert kinds.count(Kind.CANCEL) == 1


async def test_answers_that_nobody_waits_for_and_odd_ones_do_no_harm() -> None:
    async with Broker(ONE) as one, raw_peer(one) as peer:
        peer.send(parcel(Kind.RESPONSE, 77, [b"nobody asked"]))
        peer.send(parcel(Kind.CREDIT, 77, [b"\xff" * 8]))
        peer.send(parcel(Kind.CANCEL, 77))
        call = asyncio.ensure_future(one.peers.call(peer.node, ECHO, [], 20))
        head, _ = await peer.next(Kind.REQUEST)
        peer.send(parcel(Kind.RESPONSE, head.number, [b"\x7f\xffa code of later"], code=Status.KAFKA_ERROR))

        with pytest.raises(PeerFailed, match="a code of later"):
            await call


async def test_stopping_ends_the_handlers_that_are_under_way() -> None:
    async with two_brokers() as (one, two):
        held = two.peers.on_call[HELD] = Held()
        call = asyncio.ensure_future(one.peers.call(TWO, HELD, [b"question"], 20))
        await until(lambda: bool(held.begun))
        await two.peers.close()

        with pytest.raises(PeerUnavailable):
            await call
        assert not two.peers.handlers.tasks


class Wire:
    """Takes what is sent, and is never full."""

    def __init__(self) -> None:
        self.sent: list[tuple[Kind, int, int]] = []

    def send(self, _: Lane, message: Parcel) -> None:
        head = head_of(memoryview(message[0][0])[4:])
        self.sent.append((Kind(head.kind), head.number, head.code))

    async def room(self, *_: object) -> None:
        return


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_a_peer_sends_it_is_refused_or_answered_once_and_nothing_is_left(seed: int) -> None:
    chance = random.Random(seed)
    wire, handlers = Wire(), Handlers(on_call={ECHO: echo}, on_stream={ECHO: _last_of})
    peer = calls.Calls(wire, TWO, handlers, 5000, 20_000)
    asked: list[int] = []
    is_cut_off = False
    for _ in range(300):
        kind, number = chance.choice(list(Kind)), len(asked)
        if kind not in (Kind.REQUEST, Kind.OPEN) or chance.random() < 0.05:
            number = chance.choice([*asked, 0, 1 << 31])
        asked.append(number)
        body = chance.randbytes(chance.choice([0, 1, 8, 100, 2000]))
        message = parcel(kind, number, [body], code=chance.choice([ECHO, 9]), flags=chance.randrange(2))
        try:
            peer.receive(memoryview(b"".join(message[0]))[4:])
        except ProtocolError:  # as a link does
            is_cut_off = peer.end()
            break
        if chance.random() < 0.3:
            await asyncio.sleep(0)
    for number in () if is_cut_off else asked:
        for kind in (Kind.CANCEL, Kind.END):
            peer.receive(memoryview(b"".join(parcel(kind, number)[0]))[4:])
    await until(lambda: not handlers.tasks)

    assert [len(left) for left in (peer._serving, peer._unwanted, peer._streams, peer._requests)] == [0, 0, 0, 0]
    assert is_cut_off or peer._held == 0
    assert {kind for kind, _, _ in wire.sent} <= {Kind.RESPONSE, Kind.CREDIT}
    assert {code for kind, _, code in wire.sent if kind == Kind.RESPONSE} <= set(Status)


async def _last_of(_: NodeId, __: bytes, chunks: AsyncIterator[memoryview]) -> bytes:
    last = b""
    async for chunk in chunks:
        last = bytes(chunk)
    return last
