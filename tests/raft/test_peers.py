"""Brokers meet, talk Raft, lose each other and find each other again."""

from __future__ import annotations

import asyncio

import pytest

from kompat.raft.links import dialler
from kompat.raft.links.frames import Kind, parcel, read_raft
from kompat.raft.links.handshake import NO_LINK
from tests.raft.peering import ONE, THREE, TWO, Broker, RawPeer, raw_peer, two_brokers, until

MIB = 1024 * 1024


@pytest.mark.parametrize("who_dials", ["lower", "higher", "both"])
async def test_two_brokers_meet_whoever_dials(who_dials: str) -> None:
    async with Broker(ONE) as one, Broker(TWO) as two:
        if who_dials in ("lower", "both"):
            one.dial(two)
        if who_dials in ("higher", "both"):
            two.dial(one)
        await one.linked(two)

        assert one.peers.send_raft(TWO, b"group", b"to two", [b"payload"])
        assert two.peers.send_raft(ONE, b"group", b"to one", [])
        await until(lambda: bool(one.heard and two.heard))

        assert two.heard == [(ONE, b"group", b"to two", [b"payload"])]
        assert one.heard == [(TWO, b"group", b"to one", [])]


async def test_brokers_that_dial_at_the_same_moment_end_with_one_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialler, "HEAD_START", 0.0)
    async with Broker(ONE) as one, Broker(TWO) as two:
        for _ in range(10):
            one.dial(two)
            two.dial(one)
            await one.linked(two)
            await until(lambda: _link_id(one, two) == _link_id(two, one) != NO_LINK)
            one.peers.forget(TWO)
            two.peers.forget(ONE)
            await until(lambda: not one.peers.up and not two.peers.up)

        ups, downs = ([event for event in one.events if event[0] == kind] for kind in ("up", "down"))
        assert len(ups) == len(downs) >= 10


def _link_id(broker: Broker, other: Broker) -> bytes:
    link = broker.peers._links.get(other.node)
    return link.met.link_id if link is not None and link.met is not None else NO_LINK


async def test_three_brokers_are_all_linked() -> None:
    async with Broker(ONE) as one, Broker(TWO) as two, Broker(THREE) as three:
        for broker in (one, two, three):
            for other in (one, two, three):
                broker.dial(other)  # also itself, which is nothing to dial
        await one.linked(two, three)
        await two.linked(three)

        assert one.peers.up == [TWO, THREE]
        assert two.peers.up == [ONE, THREE]
        assert not one.peers.is_up(ONE)


async def test_messages_of_one_turn_arrive_in_order_and_heartbeats_with_them() -> None:
    async with two_brokers() as (one, two):
        for number in range(2000):
            assert one.peers.send_raft(TWO, b"%d" % (number % 7), b"%d" % number, [bytes(number), b"x"])
        assert one.peers.send_heartbeats(TWO, b"all groups")
        one.peers.flush()
        await until(lambda: len(two.heard) == 2000)

        assert [header for _, _, header, _ in two.heard] == [b"%d" % number for number in range(2000)]
        assert all([len(each) for each in two.heard[n][3]] == [n, 1] for n in (0, 1, 999, 1999))
        assert two.heartbeats == [(ONE, b"all groups")]


@pytest.mark.parametrize("size", [100_000, 3 * MIB, 20 * MIB])
async def test_payloads_arrive_whole_as_slices_of_one_frame(size: int) -> None:
    payload = bytes(range(256)) * (size // 256)
    got: list[tuple[memoryview, list[memoryview]]] = []
    async with two_brokers() as (one, two):
        two.peers.receive_raft(
            lambda node, group, header, payloads: got.append((header, payloads)), lambda node, blob: None
        )
        assert one.peers.send_raft(TWO, b"group", b"header", [payload, memoryview(payload)[:1000]])
        await until(lambda: bool(got))

        [(header, payloads)] = got
        assert [bytes(each) for each in payloads] == [payload, payload[:1000]]
        assert {id(each.obj) for each in [header, *payloads]} == {id(header.obj)}


async def test_what_is_sent_without_a_link_or_is_too_long_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with two_brokers(max_frame=MIB) as (one, two):
        assert not one.peers.send_raft(THREE, b"group", b"header", [])
        assert not one.peers.send_heartbeats(THREE, b"blob")
        assert not one.peers.send_raft(TWO, b"group", b"header", [bytes(MIB)])
        assert not one.peers.send_raft(TWO, b"group", b"header", [bytes(MIB)])
        assert one.peers.send_raft(TWO, b"group", b"header", [bytes(MIB - 100)])
        await until(lambda: len(two.heard) == 1)

    assert [each.getMessage() for each in caplog.records].count("a message is too long for other brokers") == 1


async def test_a_broker_that_comes_back_is_found_again() -> None:
    async with Broker(ONE) as one:
        async with Broker(TWO) as two:
            one.dial(two)
            await one.linked(two)
        await until(lambda: not one.peers.is_up(TWO))
        assert not one.peers.send_raft(TWO, b"", b"", [])

        again = Broker(TWO)
        again.address = two.address
        async with again:
            await one.linked(again)
            assert one.events == [("up", TWO), ("down", TWO), ("up", TWO)]
            one.peers.send_raft(TWO, b"group", b"hello again", [])
            await until(lambda: bool(again.heard))


async def test_a_broker_that_has_moved_is_dialled_at_its_new_address() -> None:
    async with Broker(ONE) as one, Broker(TWO) as two:
        one.peers.connect(TWO, "127.0.0.1", 1)  # where nobody listens
        one.dial(two)
        await one.linked(two)


async def test_a_broker_that_was_started_anew_takes_the_place_of_its_old_link() -> None:
    """Its machine lost power, so the old connection was never closed."""
    async with Broker(ONE) as one, raw_peer(one) as old, raw_peer(one):
        await until(lambda: len(one.events) == 3)

        assert one.events == [("up", RawPeer.node), ("down", RawPeer.node), ("up", RawPeer.node)]
        assert await old.is_closed()
        assert one.peers.is_up(RawPeer.node)


async def test_a_forgotten_broker_is_not_dialled_any_more_but_let_in() -> None:
    async with two_brokers() as (one, two):
        one.peers.forget(TWO)
        await until(lambda: not two.peers.is_up(ONE))
        assert not one.peers.is_up(TWO)

        two.dial(one)
        await one.linked(two)


async def test_a_peer_that_falls_silent_is_given_up() -> None:
    """As one that was stopped, or whose cable was cut: the connection stays, nothing comes."""
    async with Broker(ONE, beat_seconds=0.05) as one, raw_peer(one, is_beating=False) as peer:
        await peer.next(Kind.BEAT)  # it says something itself
        await until(lambda: not one.peers.is_up(peer.node))

        assert one.events[-1] == ("down", peer.node)
        assert await peer.is_closed()


async def test_a_peer_with_nothing_to_say_but_signs_of_life_is_kept() -> None:
    async with Broker(ONE, beat_seconds=0.05) as one, raw_peer(one) as peer:
        for _ in range(8):  # twice as many as it would take to be given up
            await peer.next(Kind.BEAT)

        assert one.events == [("up", peer.node)]


async def test_idle_links_stay() -> None:
    async with two_brokers(beat_seconds=0.02) as (one, two):
        link = one.peers._links[TWO]
        beats = 0
        receive = link._receive

        def counting(frame: memoryview) -> None:
            nonlocal beats
            beats += frame[0] == Kind.BEAT
            receive(frame)

        link._receive = counting
        await until(lambda: beats >= 12)

        assert one.events == [("up", TWO)]
        assert two.events == [("up", ONE)]


async def test_a_full_queue_drops_messages_and_holds_no_more_than_it_may() -> None:
    limit = 4 * MIB
    async with Broker(ONE, queue_bytes=limit) as one, raw_peer(one, receive_buffer=4096) as peer:
        payload = bytes(100_000)
        sent = 0
        while one.peers.send_raft(peer.node, b"group", b"header", [payload]):
            sent += 1
            assert sent < 1000
            await asyncio.sleep(0)  # a turn of the loop, in which the socket takes what it can

        assert one.peers._links[peer.node].queued_bytes <= limit
        assert one.peers.send_heartbeats(peer.node, b"still")  # they have a lane of their own
        assert one.peers.is_up(peer.node)
        for _ in range(sent):
            _, body = await peer.next(Kind.RAFT)
            assert len(body) > len(payload)
        await until(lambda: one.peers._links[peer.node].queued_bytes == 0)
        assert one.peers.send_raft(peer.node, b"group", b"header", [payload])


@pytest.mark.parametrize(
    "frame",
    [
        b"\x01" + b"\xff" * 7,  # a Raft message whose parts are not there
        parcel(Kind.REQUEST, 1, [bytes(MIB)])[0][0],  # only the beginning is read
    ],
)
async def test_a_peer_that_breaks_the_protocol_is_cut_off(frame: bytes) -> None:
    async with Broker(ONE, max_frame=MIB // 2) as one, raw_peer(one) as peer:
        if frame[0] == Kind.RAFT:
            peer.say(frame)
        else:
            peer.writer.write(frame)

        assert await peer.is_closed()
        await until(lambda: not one.peers.is_up(peer.node))


async def test_what_a_later_version_may_say_is_passed_over() -> None:
    async with Broker(ONE) as one, raw_peer(one) as peer:
        peer.say(bytes([200]) + bytes(20))
        one.peers.send_raft(peer.node, b"group", b"header", [b"payload"])
        _, body = await peer.next(Kind.RAFT)

        assert read_raft(memoryview(bytes([Kind.RAFT, 5, 0, 1, 0, 0, 0, 6]) + body))[0] == b"group"
