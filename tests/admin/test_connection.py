"""HTTP connections that want more than their part: of connections, of the event loop, of memory."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

import pytest

from kompat.admin.connection import RESERVED
from kompat.admin.limits import LEAST_BYTES, Share
from kompat.admin.serving import RESERVED_CONNECTIONS
from tests.admin.test_app import listening

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
MOST = 10
LIVE = b"GET /health/live HTTP/1.1\r\nhost: any\r\n\r\n"
LED = b"GET /led HTTP/1.1\r\nhost: broker\r\n\r\n"
WAIT = b"GET /wait HTTP/1.1\r\nhost: broker\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nhost: broker\r\n\r\n"


async def opened(stack: AsyncExitStack, place: tuple[str, int], sent: bytes = b"") -> Streams:
    reader, writer = await asyncio.open_connection(*place)
    stack.callback(writer.close)
    writer.write(sent)
    return reader, writer


async def status(streams: Streams) -> int:
    line = await asyncio.wait_for(streams[0].readline(), 30)
    return int(line.split()[1]) if line else 0


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)


async def test_silent_connections_give_way_to_those_who_ask() -> None:
    async with AsyncExitStack() as stack:
        _, place = await stack.enter_async_context(listening(most=MOST))
        silent = [await opened(stack, place) for _ in range(MOST * 3)]
        asking = [await opened(stack, place, each) for each in (LIVE, LED)]
        assert [await status(each) for each in asking] == [404, 200]  # there is no such route here, but an answer

        with suppress(ConnectionError):
            assert await asyncio.wait_for(silent[0][0].read(), 30) == b""


async def test_the_health_is_told_when_all_connections_are_at_work() -> None:
    async with AsyncExitStack() as stack:
        serving, place = await stack.enter_async_context(listening(most=MOST))
        busy = [await opened(stack, place, WAIT) for _ in range(MOST)]
        await until(lambda: sum(each._has_head for each in serving.connections) == MOST)
        crowd = [await opened(stack, place) for _ in range(RESERVED_CONNECTIONS * 2)]

        health, other = await opened(stack, place, LIVE), await opened(stack, place, LED)
        assert (await status(health), await status(other)) == (404, 503)
        assert b"connection: close" in await asyncio.wait_for(health[0].read(), 30)
        assert sum(RESERVED in each.app_state for each in serving.connections) <= RESERVED_CONNECTIONS
        assert all(not reader.at_eof() for reader, _ in busy)
        assert crowd


async def test_pipelined_requests_are_begun_some_at_a_time() -> None:
    async with AsyncExitStack() as stack:
        serving, place = await stack.enter_async_context(listening())
        reader, _ = await opened(stack, place, WAIT + LED * 5_000)
        await until(lambda: any(each.pipeline for each in serving.connections))
        [connection] = serving.connections
        assert len(connection.pipeline) < 200

        serving.application.stopping.set()
        for _ in range(5_001):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            assert head.startswith(b"HTTP/1.1 200")
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(size)


async def test_what_clients_do_not_read_is_counted_and_given_back_when_they_go() -> None:
    async with AsyncExitStack() as stack:
        serving, place = await stack.enter_async_context(listening())
        share = serving.share
        lazy = [await opened(stack, place, LARGE) for _ in range(3)]
        await until(lambda: sum(each._unread > 0 for each in serving.connections) == 3)
        assert share.used > 3 << 20
        for _, writer in lazy:
            writer.transport.abort()
        await until(lambda: not serving.connections)
        assert share.used == 0


async def test_who_does_not_read_is_cut_off_soon_when_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kompat.admin.connection.HURRIED_SECONDS", 0.05)
    async with AsyncExitStack() as stack:
        serving, place = await stack.enter_async_context(listening(head_seconds=0.2))
        await opened(stack, place, LARGE)
        await until(lambda: any(each._unread for each in serving.connections))
        serving.share.take(1 << 30)
        await until(lambda: not serving.connections)
        await until(lambda: serving.share.used == 1 << 30)


class Whole:
    """The broker's budget."""

    def __init__(self) -> None:
        self.used = 0
        self.is_spent = False
        self.wakes: list[object] = []

    def take(self, size: int) -> None:
        self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size

    def wait(self, who: object, wake: object) -> None:
        self.wakes.append(wake)


async def test_what_http_holds_is_part_of_the_brokers_one_budget() -> None:
    whole, share = Whole(), Share(limit=1000)
    share.take(10)
    share.join(whole)
    share.take(5)
    assert whole.used == 15
    share.give_back(15)
    assert (whole.used, share.is_spent) == (0, False)

    whole.is_spent = True
    waiting = asyncio.ensure_future(share.until_room(30))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    whole.is_spent = False
    [wake] = whole.wakes
    wake()  # type: ignore[operator]
    await waiting


async def test_the_less_room_is_left_the_less_an_answer_may_hold() -> None:
    share = Share(limit=80 << 20)
    with share.room() as first, share.room() as second:
        assert first.reserve(4 << 20) == 4 << 20
        share.take(72 << 20)
        assert second.reserve(4 << 20) == (4 << 20) // 8
        share.take(4 << 20)
        assert second.reserve(4 << 20) == LEAST_BYTES
        second.hold(100)
        assert share.used == (80 << 20) + 100
    assert share.used == 76 << 20
