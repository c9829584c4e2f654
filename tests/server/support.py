"""A server with made-up APIs on a real socket, and a client that speaks raw frames."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from kompat.errors import KafkaError
from kompat.handlers.support.base import Api, Context, Handler
from kompat.handlers.support.services import Services
from kompat.protocol.api_keys import ApiKey
from kompat.server.dispatch import Dispatcher
from kompat.server.limits import Limits
from kompat.server.listener import Listener

PLAIN = ApiKey.Produce  # an API key whose versions up to 8 have plain headers, as made-up APIs here do
ERROR = 1_000_000
_NOTHING = SimpleNamespace(is_enabled=False)
NO_SERVICES = cast("Services", SimpleNamespace(quotas=_NOTHING, authorizer=_NOTHING))


@dataclass
class Ask:
    """A request whose body is a number and a text."""

    number: int = 0
    text: bytes = b""


@dataclass
class Tell:
    text: bytes
    error_code: int = 0


def decode(_: int, body: memoryview) -> Ask:
    return Ask(struct.unpack_from(">i", body)[0], bytes(body[4:]))


def encode(_: int, tell: Tell) -> list[Any]:
    return [struct.pack(">h", tell.error_code), tell.text]


def failure(_: Ask, error: KafkaError) -> Tell:
    return Tell(b"", error.code)


def api(
    handle: Callable[[Context, Ask], Any], *, key: int = PLAIN, decode: Callable[[int, memoryview], Ask] = decode
) -> Api:
    return Api(ApiKey(key), 3, 8, handler=Handler(Ask, Tell, handle, failure, decode=decode, encode=encode))


def echo(_: Context, ask: Ask) -> Tell:
    return Tell(ask.text)


def request(correlation_id: int, text: bytes = b"", number: int = 0, *, key: int = PLAIN, version: int = 3) -> bytes:
    header = struct.pack(">hhih", key, version, correlation_id, 4) + b"test"
    return framed(header + struct.pack(">i", number) + text)


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self) -> tuple[int, int, bytes]:
        """Correlation id, error code and text of the next answer."""
        length = struct.unpack(">i", await self._exactly(4))[0]
        frame = await self._exactly(length)
        correlation_id, error = struct.unpack_from(">ih", frame)
        return correlation_id, error, frame[6:]

    async def ask(self, text: bytes, number: int = 0) -> bytes:
        self.send(request(1, text, number))
        return (await self.receive())[2]

    async def is_closed(self) -> bool:
        """Whether the server closes the connection; what it still sends is thrown away."""
        try:
            async with asyncio.timeout(5):
                while await self.reader.read(1 << 16):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    async def _exactly(self, size: int) -> bytes:
        async with asyncio.timeout(5):
            return await self.reader.readexactly(size)


class Server:
    def __init__(self, listener: Listener, host: str, port: int) -> None:
        self.listener = listener
        self.host = host
        self.port = port
        self._clients: list[RawClient] = []

    async def connect(self) -> RawClient:
        client = RawClient(*await asyncio.open_connection(self.host, self.port))
        self._clients.append(client)
        return client

    async def disconnect(self) -> None:
        for client in self._clients:
            await client.close()


@asynccontextmanager
async def serving(*apis: Api, limits: Limits | None = None, quotas: Any = _NOTHING) -> AsyncIterator[Server]:
    services = cast("Services", SimpleNamespace(quotas=quotas, authorizer=_NOTHING))
    counted = None if quotas is _NOTHING else quotas
    listener = Listener(Dispatcher(apis, services), limits or Limits(), quotas=counted)
    server = Server(listener, *await listener.start("127.0.0.1", 0))
    try:
        yield server
    finally:
        await server.disconnect()
        await listener.drain(0.5)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that has no event of its own."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
