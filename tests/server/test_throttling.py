"""Who uses up a quota is answered at once, told how long to wait, and not heard for so long."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kompat.handlers.support import loop_time
from kompat.handlers.support.base import Context
from kompat.protocol.api_keys import ApiKey
from kompat.server import dispatch, throttling
from kompat.server.dispatch import Client, Dispatcher, Exchange
from tests.server.support import Ask, RawClient, Server, Tell, api, echo, request, serving, until

LONG = 3_600_000  # milliseconds: nobody waits for its end here


@dataclass
class Told(Tell):
    throttle_time_ms: int = 0


@dataclass
class Quotas:
    """Says what it is told to say, and remembers what it was asked."""

    waits: int = 0
    seconds: float = 0.0  # that a new connection has to wait
    is_enabled: bool = True
    counts_connections: bool = True
    produced_bytes: list[int] = field(default_factory=list)
    fetched_bytes: list[int] = field(default_factory=list)
    worked_seconds: list[float] = field(default_factory=list)

    def produced(self, principal: str, client_id: str | None, size: int) -> int:
        self.produced_bytes.append(size)
        return self.waits

    def fetched(self, principal: str, client_id: str | None, size: int) -> int:
        self.fetched_bytes.append(size)
        return self.waits

    def worked(self, principal: str, client_id: str | None, seconds: float) -> int:
        self.worked_seconds.append(seconds)
        return 0

    def connected(self, address: str) -> float:
        return self.seconds


async def _is_silent(client: RawClient) -> bool:
    try:
        async with asyncio.timeout(0.1):
            await client.reader.readexactly(1)
    except TimeoutError:
        return True
    return False


def _unmute(server: Server) -> None:
    [connection] = server.listener.connections
    connection._unmute()


def _throttled(_: Context, ask: Ask) -> Told:
    return Told(ask.text)


async def _throttled_later(_: Context, ask: Ask) -> Told:
    await asyncio.sleep(0)
    return Told(ask.text)


@pytest.mark.parametrize("handle", [_throttled, _throttled_later])
async def test_the_answer_comes_at_once_and_what_follows_it_waits(handle: Any) -> None:
    quotas = Quotas(waits=LONG)
    async with serving(api(handle, key=ApiKey.Produce), quotas=quotas) as server:
        client = await server.connect()
        client.send(request(1, b"first"))
        assert (await client.receive())[0] == 1
        client.send(request(2, b"second"))
        assert await _is_silent(client)
        assert len(quotas.produced_bytes) == 1

        quotas.waits = 0
        _unmute(server)

        assert (await client.receive())[0] == 2
        client.send(request(3, b"third"))
        assert (await client.receive())[0] == 3


async def test_a_request_that_has_no_answer_counts_too() -> None:
    quotas = Quotas(waits=LONG)
    async with serving(
        api(lambda _, ask: Tell(ask.text) if ask.number else None, key=ApiKey.Produce), quotas=quotas
    ) as server:
        client = await server.connect()
        client.send(request(1, b"unanswered"))
        await until(lambda: len(quotas.produced_bytes) == 1)
        client.send(request(2, b"answered", number=1))
        assert await _is_silent(client)

        _unmute(server)

        assert (await client.receive())[0] == 2


def test_bytes_of_requests_count_for_producers_and_bytes_of_answers_for_consumers() -> None:
    for key in (ApiKey.Produce, ApiKey.Fetch):
        quotas = Quotas()
        dispatcher = Dispatcher([api(echo, key=key)], _services(quotas))
        frame = request(1, b"text", key=key)[4:]
        answer = dispatcher.dispatch(_client(), memoryview(bytearray(frame)))

        assert isinstance(answer, list)
        counted = {ApiKey.Produce: quotas.produced_bytes, ApiKey.Fetch: quotas.fetched_bytes}
        assert counted == {
            ApiKey.Produce: [len(frame)] if key == ApiKey.Produce else [],
            ApiKey.Fetch: [sum(map(len, answer))] if key == ApiKey.Fetch else [],
        }


async def test_the_time_that_a_request_waits_is_not_held_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    quotas, gone_on, now = Quotas(), asyncio.Event(), [0.0]
    for module in (dispatch, throttling, loop_time):
        monkeypatch.setattr(module, "perf_counter", lambda: now[0])

    async def handle(_: Context, ask: Ask) -> Tell:
        now[0] += 2
        await gone_on.wait()
        now[0] += 3
        return Tell(ask.text)

    exchange = Dispatcher([api(handle)], _services(quotas)).dispatch(_client(), memoryview(bytearray(request(1)[4:])))
    assert isinstance(exchange, Exchange)
    await until(lambda: now[0] == 2)
    now[0] += 1000
    gone_on.set()
    await until(lambda: exchange.is_done)

    assert quotas.worked_seconds == [5]


async def test_what_a_handler_raises_passes_through_the_clock() -> None:
    async def handle(_: Context, ask: Ask) -> Tell:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        except TimeoutError:
            return Tell(b"in time")
        return Tell(b"")

    async with serving(api(handle), quotas=Quotas()) as server:
        assert await (await server.connect()).ask(b"x") == b"in time"


async def test_a_connection_too_many_is_not_heard_and_closed_after_a_while() -> None:
    quotas = Quotas(seconds=0.2)
    async with serving(api(echo), quotas=quotas) as server:
        turned_away = await server.connect()
        await until(lambda: len(server.listener.connections) == 1)
        quotas.seconds = 0.0
        turned_away.send(request(1, b"hello"))
        assert await (await server.connect()).ask(b"welcome") == b"welcome"

        assert await turned_away.is_closed()
        assert quotas.worked_seconds[1:] == []


def _services(quotas: Quotas) -> Any:
    return SimpleNamespace(quotas=quotas, authorizer=SimpleNamespace(is_enabled=False))


def _client() -> Any:
    return Client("127.0.0.1", "c", ("127.0.0.1", 1))
