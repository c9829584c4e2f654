"""A Kafka client that is nothing but a socket: a thousand of them cost one process little."""

from __future__ import annotations

import asyncio
import struct
from typing import Any


class RawClient:
    """One request at a time, on one connection; messages are kafka-python's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sent = 0

    @classmethod
    async def connect(cls, bootstrap: str) -> RawClient:
        host, port = bootstrap.rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port)))

    async def call(self, request: Any, response: type[Any]) -> Any:
        """`request` is made of a versioned class; `response` is that of the same version."""
        self._sent += 1
        request.with_header(self._sent, "bench")
        self._writer.write(request.encode(header=True, framed=True))
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        return response.decode(await self._reader.readexactly(size), header=True)

    def close(self) -> None:
        self._writer.close()
