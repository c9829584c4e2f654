"""Whoever is not of the cluster gets nothing, costs little, and is logged once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from kompat.errors import ConfigError, PeerUnavailable
from kompat.raft import peers
from kompat.raft.links.frames import Kind, parcel, raft_parcel
from kompat.raft.links.handshake import LONGEST_MESSAGE
from kompat.raft.links.identity import Identity
from kompat.raft.links.listener import MAX_UNAUTHENTICATED
from tests.raft.peering import ONE, SECRET, TWO, Broker, RawPeer, until


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(ONE, cluster_id="ours") as broker:

        async def tell(*_: object) -> list[bytes]:
            return [b"a secret"]

        broker.peers.on_call[1] = tell
        yield broker


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(each.__dict__["reason"]) for each in caplog.records if each.levelno >= logging.WARNING]


async def is_refused(broker: Broker, said: bytes) -> bool:
    """Whether nothing but the end of the connection comes back."""
    stranger = await RawPeer.connect(broker.address)
    stranger.writer.write(said)
    answer = b""
    with suppress(ConnectionError):
        async with asyncio.timeout(20):
            answer = await stranger.reader.read()
    await stranger.close()
    return answer == b"" and not broker.peers.up and not broker.heard


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300),  # TLS
        (20).to_bytes(4, "big") + bytes(20),
        (LONGEST_MESSAGE + 1).to_bytes(4, "big") + bytes(LONGEST_MESSAGE + 1),
        b"\x7f\xff\xff\xff",  # promises 2 GiB
        b"\x00\x00\x00\x00",
        b"".join(raft_parcel(b"group", b"header", [b"payload"])[0]),
        b"".join(parcel(Kind.REQUEST, 1, [b"question"], code=1)[0]),
    ],
)
async def test_garbage_is_answered_with_the_end_of_the_connection(
    broker: Broker, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert await is_refused(broker, said)

    assert len(refusals(caplog)) == 1  # of three


async def test_a_wrong_secret_gets_nothing_and_both_sides_say_so_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(TWO, Identity(b"not the secret of the cluster")) as wrong:
        tried: list[int] = []
        dial = wrong.peers._dial

        async def counting(*address: object) -> bool:
            tried.append(1)
            return await dial(*address)  # type: ignore[arg-type]

        wrong.peers._dial = counting  # type: ignore[method-assign, assignment]
        wrong.dial(broker)
        await until(lambda: len(tried) >= 4)

        assert not wrong.peers.up
        assert not broker.peers.up
        with pytest.raises(PeerUnavailable) as raised:
            await wrong.peers.call(ONE, 1, [b"question"], 1.0)
        assert not raised.value.is_sent

    assert sorted(refusals(caplog)) == [
        "it has closed the connection without a welcome: its cluster secret or certificate may be another",
        "its proof is wrong: it has another cluster secret",
    ]


async def test_another_cluster_is_refused_and_both_sides_know_why(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(TWO, cluster_id="theirs") as foreign:
        foreign.dial(broker)
        await until(lambda: len(refusals(caplog)) == 2)

        assert not broker.peers.up
        assert sorted(refusals(caplog)) == [
            "it belongs to another cluster",
            "node 2 belongs to cluster theirs, this broker to ours",
        ]


async def test_a_cluster_id_that_becomes_known_parts_those_who_do_not_belong_together(broker: Broker) -> None:
    async with Broker(TWO) as other:
        other.dial(broker)
        await other.linked(broker)
        other.peers.cluster_id = "ours"
        assert other.peers.up == [ONE]

        other.peers.cluster_id = "theirs"
        await until(lambda: not other.peers.up and not broker.peers.up)


async def test_the_address_of_another_broker_is_noticed(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    async with Broker(TWO) as other:
        other.peers.connect(peers.NodeId(3), *broker.address)
        await until(lambda: len(refusals(caplog)) == 2)

        assert not broker.peers.up
        assert "another broker answers at this address" in refusals(caplog)


async def test_whoever_does_not_say_who_it_is_is_cut_off(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(peers, "HANDSHAKE_SECONDS", 0.2)
    silent = await RawPeer.connect(broker.address)
    slow = await RawPeer.connect(broker.address)

    async def drip() -> None:
        with suppress(ConnectionError):
            for byte in (60).to_bytes(4, "big") + b"kmpt" + bytes(1000):
                slow.writer.write(bytes([byte]))
                await slow.writer.drain()
                await asyncio.sleep(0.02)

    dripping = asyncio.get_running_loop().create_task(drip())

    assert await silent.is_closed()
    assert await slow.is_closed()
    dripping.cancel()
    assert refusals(caplog) == ["it does not say who it is"]
    await until(lambda: broker.peers._listener.unauthenticated == 0)
    for each in (silent, slow):
        await each.close()


async def test_a_crowd_of_strangers_is_kept_small_and_does_not_keep_brokers_out(broker: Broker) -> None:
    crowd = [await RawPeer.connect(broker.address) for _ in range(3 * MAX_UNAUTHENTICATED)]
    await until(lambda: broker.peers._listener.unauthenticated >= MAX_UNAUTHENTICATED // 2)
    async with Broker(TWO) as other:
        other.dial(broker)
        await other.linked(broker)

        assert broker.peers._listener.unauthenticated <= MAX_UNAUTHENTICATED + 1
        assert await crowd[0].is_closed()
    for each in crowd:
        await each.close()


async def test_speaking_before_the_welcome_is_refused(broker: Broker) -> None:
    peer = await RawPeer.connect(broker.address)
    await peer.shake_hands(ONE)
    await until(lambda: bool(broker.peers.up))

    hasty = await RawPeer.connect(broker.address)
    hasty.send(parcel(Kind.BEAT, 0))
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await hasty.shake_hands(ONE)
    for each in (peer, hasty):
        await each.close()


@pytest.mark.parametrize("secret", [b"", b"short"])
def test_a_cluster_without_a_good_secret_is_not_started(secret: bytes) -> None:
    with pytest.raises(ConfigError):
        Identity(secret)
    assert Identity(SECRET).secret == SECRET
