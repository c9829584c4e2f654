"""Connections whose clients have to say who they are: what is heard before, and that the rest goes as ever."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kompat.clock import SystemClock
from kompat.handlers import BY_KEY
from kompat.handlers.support.base import Api, Context
from kompat.handlers.support.sasl_session import SaslSession, SaslSettings
from kompat.protocol.api_keys import ApiKey
from kompat.security.principals import PrincipalRules
from kompat.server.dispatch import Dispatcher
from kompat.server.limits import Limits
from kompat.server.listener import Entrance, Listener
from kompat.server.owner import Owner
from kompat.server.unauthenticated import CertifiedConnection, SaslConnection
from tests.handlers.support.test_sasl_session import FewUsers
from tests.security.certificates import Authority, Files
from tests.security.scram_client import ScramClient
from tests.server.support import NO_SERVICES, Ask, RawClient, Server, Tell, api, echo, framed, request, until

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificates with openssl")
HANDSHAKE, AUTHENTICATE = 17, 36
SMALL = 4096


def sasl(settings: SaslSettings, tls: ssl.SSLContext | None = None) -> Entrance:
    users: Any = FewUsers()

    def connect(owner: Any) -> SaslConnection:
        def session(connection: SaslConnection) -> SaslSession:
            return SaslSession(settings, users, SystemClock(), known=connection.known, failed=connection.failed)

        return SaslConnection(owner, "INSIDE", session, settings.longest_request)

    return Entrance(connect, tls)


@asynccontextmanager
async def serving(entrance: Entrance, *apis: Api, limits: Limits | None = None) -> AsyncIterator[Server]:
    listener = Listener(
        Dispatcher((BY_KEY[ApiKey.SaslHandshake], BY_KEY[ApiKey.SaslAuthenticate], *apis), NO_SERVICES),
        limits or Limits(),
    )
    server = Server(listener, *await listener.start("127.0.0.1", 0, None, entrance))
    try:
        yield server
    finally:
        await server.disconnect()
        await listener.drain(0.5)


PLAIN = SaslSettings(("PLAIN", "SCRAM-SHA-256"), failure_delay=0.02, longest_request=SMALL)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    header = struct.pack(">hhih", HANDSHAKE, version, 1, -1)
    return framed(header + struct.pack(">h", len(mechanism)) + mechanism.encode())


def message(token: bytes) -> bytes:
    return framed(struct.pack(">hhihi", AUTHENTICATE, 1, 2, -1, len(token)) + token)


async def log_in(client: RawClient, token: bytes = b"\0alice\0a") -> tuple[int, bytes]:
    """Error code and the rest of the answer."""
    client.send(handshake())
    assert (await client.receive())[1] == 0
    client.send(message(token))
    _, error, rest = await client.receive()
    return error, rest


def principal(ctx: Context, _: Ask) -> Tell:
    return Tell(f"{ctx.principal} {ctx.listener}".encode())


async def test_who_has_logged_in_is_served_under_its_name() -> None:
    async with serving(sasl(PLAIN), api(principal)) as server:
        client = await server.connect()

        assert (await log_in(client))[0] == 0

        assert await client.ask(b"") == b"User:alice INSIDE"


async def test_requests_of_strangers_are_not_looked_at() -> None:
    async with serving(sasl(PLAIN), api(echo)) as server:
        client = await server.connect()
        client.send(request(1, b"let me in"))

        assert await client.is_closed()


async def test_wrong_credentials_are_answered_and_nothing_after_them() -> None:
    async with serving(sasl(PLAIN), api(echo)) as server:
        client = await server.connect()
        client.send(handshake())
        assert (await client.receive())[1] == 0
        client.send(message(b"\0alice\0wrong") + request(9, b"and now"))

        _, error, rest = await client.receive()

        assert error == 58
        assert b"Authentication failed: Invalid username or password" in rest
        assert await client.reader.read() == b""
        assert server.listener.unauthenticated.refused == {"INSIDE": 1}


async def test_a_mechanism_that_is_not_there_is_answered_with_those_that_are() -> None:
    async with serving(sasl(PLAIN)) as server:
        client = await server.connect()
        client.send(handshake("GSSAPI"))

        _, error, rest = await client.receive()

        assert error == 33
        assert b"SCRAM-SHA-256" in rest
        assert await client.is_closed()


@pytest.mark.parametrize("first", [framed(bytes(SMALL + 1)), framed(b"short"), framed(b"")])
async def test_frames_of_strangers_are_small_and_whole(first: bytes) -> None:
    async with serving(sasl(PLAIN), api(echo)) as server:
        client = await server.connect()
        client.send(first)

        assert await client.is_closed()


async def test_frames_of_those_who_are_known_may_be_large() -> None:
    async with serving(sasl(PLAIN), api(echo)) as server:
        client = await server.connect()
        await log_in(client)

        assert await client.ask(bytes(50 * SMALL)) == bytes(50 * SMALL)


async def test_a_client_of_old_sends_its_messages_bare() -> None:
    async with serving(sasl(PLAIN), api(principal)) as server:
        for user, password in (("alice", "a"), ("bob", "b")):
            client = await server.connect()
            client.send(handshake("SCRAM-SHA-256", version=0))
            assert (await client.receive())[1] == 0
            scram = ScramClient("sha256", user, password)

            client.send(framed(scram.first()))
            client.send(framed(scram.final(await _bare(client))))

            assert await _bare(client) == scram.expected
            assert await client.ask(b"") == f"User:{user} INSIDE".encode()


async def test_a_client_of_old_with_a_short_password_is_let_in_and_without_it_is_not() -> None:
    async with serving(sasl(PLAIN), api(echo)) as server:
        for token, is_let_in in ((b"\0bob\0b", True), (b"\0bob\0x", False)):
            client = await server.connect()
            client.send(handshake(version=0))
            assert (await client.receive())[1] == 0
            client.send(framed(token))
            if is_let_in:
                assert await _bare(client) == b""
                assert await client.ask(b"hello") == b"hello"
            else:
                assert await client.reader.read() == b""


async def _bare(client: RawClient) -> bytes:
    (length,) = struct.unpack(">i", await client._exactly(4))
    return await client._exactly(length)


async def test_whoever_does_not_say_who_it_is_has_to_go() -> None:
    async with serving(sasl(PLAIN), api(echo), limits=Limits(login_seconds=0.2)) as server:
        idle, known = await server.connect(), await server.connect()
        assert (await log_in(known))[0] == 0

        assert await idle.is_closed()

        assert await known.ask(b"still here") == b"still here"


async def test_strangers_together_may_have_so_much_under_way() -> None:
    limits = Limits(unauthenticated_bytes=3 * SMALL)
    async with serving(sasl(PLAIN), api(echo), limits=limits) as server:
        known = await server.connect()
        await log_in(known)
        half = struct.pack(">i", SMALL) + bytes(SMALL - 1)
        unauthenticated = [await server.connect() for _ in range(10)]
        for stranger in unauthenticated:
            stranger.send(half)

        await until(lambda: len(server.listener.connections) <= 4)
        assert await known.ask(b"not me") == b"not me"

        for stranger in unauthenticated:
            await stranger.close()
        await until(lambda: server.listener.unauthenticated.budget.used == 0)
        newcomer = await server.connect()
        assert (await log_in(newcomer))[0] == 0


async def test_strangers_are_so_many_and_the_quietest_has_to_go() -> None:
    async with serving(sasl(PLAIN), api(principal), limits=Limits(unauthenticated=3)) as server:
        known = await server.connect()
        await log_in(known)
        first = await server.connect()
        await until(lambda: len(server.listener.unauthenticated) == 1)
        idle = [await server.connect() for _ in range(2)]
        await until(lambda: len(server.listener.unauthenticated) == 3)
        first.send(handshake())
        assert (await first.receive())[1] == 0

        newcomer = await server.connect()
        assert (await log_in(newcomer))[0] == 0

        assert await idle[0].is_closed()
        assert len(server.listener.unauthenticated) == 2
        first.send(message(b"\0alice\0a"))
        assert (await first.receive())[1] == 0
        assert await known.ask(b"") == await newcomer.ask(b"") == b"User:alice INSIDE"


async def test_logins_succeed_while_silent_clients_come_faster_than_they_are_turned_away() -> None:
    async with serving(sasl(PLAIN), api(principal), limits=Limits(unauthenticated=20)) as server:
        for _ in range(5):
            client = await server.connect()
            await asyncio.gather(*(server.connect() for _ in range(15)))
            client.send(handshake())
            assert (await client.receive())[1] == 0
            await asyncio.gather(*(server.connect() for _ in range(15)))
            client.send(message(b"\0alice\0a"))
            assert (await client.receive())[1] == 0
            assert await client.ask(b"") == b"User:alice INSIDE"
        await until(lambda: len(server.listener.unauthenticated) <= 20)


# -- TLS ----------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Files:
    return authority.files("broker")


def server_side(files: Files, clients: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.both)
    context.load_verify_locations(files.authority)
    context.verify_mode = clients
    return context


async def connect(server: Server, files: Files, own: Files | None = None) -> RawClient:
    context = ssl.create_default_context(cafile=files.authority)
    if own is not None:
        context.load_cert_chain(own.both)
    streams = await asyncio.open_connection(server.host, server.port, ssl=context, server_hostname="localhost")
    client = RawClient(*streams)
    server._clients.append(client)
    return client


def certified(rules: str, tls: ssl.SSLContext) -> Entrance:
    def made(owner: Owner) -> CertifiedConnection:
        return CertifiedConnection(owner, "SSL", PrincipalRules(rules))

    return Entrance(made, tls)


@needs_openssl
async def test_a_certificate_names_its_owner(authority: Authority, broker: Files) -> None:
    alice = authority.files("alice", "/O=Acme/CN=alice")
    entrance = certified("RULE:^CN=([a-z]+),.*$/$1/", server_side(broker, ssl.CERT_OPTIONAL))
    async with serving(entrance, api(principal)) as server:
        assert await (await connect(server, broker, alice)).ask(b"") == b"User:alice SSL"
        assert await (await connect(server, broker)).ask(b"") == b"User:ANONYMOUS SSL"
        nameless = await connect(server, broker, broker)
        nameless.send(request(1))
        assert await nameless.is_closed()


@needs_openssl
async def test_large_requests_and_answers_go_through_tls(broker: Files) -> None:
    async with serving(certified("DEFAULT", server_side(broker)), api(echo)) as server:
        client = await connect(server, broker)
        text = bytes(range(256)) * (1 << 16)

        assert await client.ask(text) == text


@needs_openssl
async def test_a_slow_reader_gets_everything_through_tls_in_the_end(broker: Files) -> None:
    entrance = certified("DEFAULT", server_side(broker))
    async with serving(entrance, api(lambda _, ask: Tell(bytes(1 << 20)))) as server:
        client = await connect(server, broker)
        for number in range(50):
            client.send(request(number))

        for number in range(50):
            correlation_id, _, text = await client.receive()
            assert correlation_id == number
            assert len(text) == 1 << 20


@needs_openssl
async def test_a_client_that_never_reads_is_not_answered_into_memory_through_tls(broker: Files) -> None:
    answered = 0

    def large(_: Context, __: Ask) -> Tell:
        nonlocal answered
        answered += 1
        return Tell(bytes(1 << 20))

    limits = Limits(unread_seconds=0.5, unread_bytes=1 << 20)
    async with serving(certified("DEFAULT", server_side(broker)), api(large), limits=limits) as server:
        client = await connect(server, broker)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(1000):
            client.send(request(number))
        await until(lambda: answered > 0)

        await until(lambda: not server.listener.connections)

        assert answered < 40, "the broker went on answering into a full socket"
        client.writer.transport.abort()
        server._clients.clear()


@needs_openssl
async def test_sasl_goes_through_tls(broker: Files) -> None:
    async with serving(sasl(PLAIN, server_side(broker)), api(principal)) as server:
        client = await connect(server, broker)

        assert (await log_in(client))[0] == 0

        assert await client.ask(b"") == b"User:alice INSIDE"


@needs_openssl
async def test_what_is_not_tls_gets_no_answer(broker: Files) -> None:
    async with serving(certified("DEFAULT", server_side(broker)), api(echo)) as server:
        client = await server.connect()
        client.send(request(1, b"in the clear"))

        assert await client.is_closed()
