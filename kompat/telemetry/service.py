"""Client telemetry for the handlers: it reads subscriptions from settings, and keeps clients' metrics for the metrics page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from kompat.clock import Clock
from kompat.errors import ErrorCode, KafkaError
from kompat.types import Buffer

if TYPE_CHECKING:
    # Imported at the first request, so that a start does not wait for it.
    from kompat.telemetry.clients import Clients
    from kompat.telemetry.otlp import Point
    from kompat.telemetry.subscriptions import ClientFacts, Subscription, Wanted

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
ACCEPTED: Final = (ZSTD, LZ4, GZIP, SNAPPY)  # by preference
AT_ONCE: Final = 8 * 1024  # bytes that are parsed on the event loop; larger payloads are parsed in a thread
MOST_READ: Final = 16 << 20  # bytes after decompression
MOST_POINTS: Final = 2_000  # of one push
UNKNOWN: Final = ("", "")

Settings = Callable[[], Iterable[Mapping[str, str]]]


class Telemetry:
    def __init__(self, clock: Clock, settings: Settings, stamp: Callable[[], object]) -> None:
        """`settings` returns those of all subscriptions; they are read again when `stamp` changes."""
        self._clock = clock
        self._settings = settings
        self._stamp = stamp
        self._read_at: object = None
        self._subscriptions: Sequence[Subscription] = ()
        self._software: dict[str, tuple[str, str]] = {}  # name and version, by connection
        self._clients: Clients | None = None

    @property
    def clients(self) -> Clients:
        if self._clients is None:
            from kompat.telemetry.clients import Clients

            self._clients = Clients()
        return self._clients

    # -- connections -----------------------------------------------------------------------------------------------
    def greeted(self, connection_id: str, name: str, version: str) -> None:
        """Note the name and version of a client's software (ApiVersions)."""
        self._software[connection_id] = name, version

    def left(self, connection_id: str) -> None:
        self._software.pop(connection_id, None)

    def software(self, connection_id: str) -> tuple[str, str]:
        return self._software.get(connection_id, UNKNOWN)

    # -- clients ---------------------------------------------------------------------------------------------------
    @property
    def is_wanted(self) -> bool:
        """Whether there is any subscription."""
        return bool(self._current())

    def ask(self, facts: ClientFacts) -> Wanted:
        return self.clients.ask(facts, self._current(), self._clock.now())

    async def push(
        self,
        facts: ClientFacts,
        subscription_id: int,
        codec: int,
        payload: Buffer,
        *,
        terminating: bool,
        max_bytes: int,
    ) -> None:
        """Keep the metrics of a push. Raises KafkaError."""
        clients, instance_id = self.clients, facts.instance_id
        clients.admit(facts, self._current(), subscription_id, self._clock.now(), terminating=terminating)
        if codec != NONE and codec not in ACCEPTED:
            raise clients.refuse(instance_id, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(payload) > max_bytes:
            raise clients.refuse(instance_id, ErrorCode.TELEMETRY_TOO_LARGE)
        try:
            if len(payload) <= AT_ONCE:
                points = _read(codec, payload)
            else:
                points = await asyncio.get_running_loop().run_in_executor(None, _read, codec, payload)
        except KafkaError as error:
            raise clients.refuse(instance_id, error.code) from None
        clients.take(instance_id, points)

    def _current(self) -> Sequence[Subscription]:
        from kompat.telemetry import subscriptions

        stamp = self._stamp()
        if stamp != self._read_at:
            self._read_at = stamp
            self._subscriptions = [subscriptions.parse(each) for each in self._settings()]
        return self._subscriptions


def _read(codec: int, payload: Buffer) -> list[Point]:
    from kompat.protocol.compression import decompress
    from kompat.telemetry import otlp

    if not payload:
        return []
    plain = decompress(codec, payload, MOST_READ) if codec != NONE else payload
    return list(islice(otlp.points(plain), MOST_POINTS))
