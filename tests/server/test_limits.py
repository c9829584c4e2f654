"""What connections hold in memory: it is counted, bounded for all of them together, and given back when they end."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from kompat.handlers.support.base import Context
from kompat.server.limits import Limits
from tests.server.support import Ask, RawClient, Server, Tell, api, echo, request, serving, until

KB = 1024


def half(promised: int, sent: int) -> bytes:
    """The beginning of a request."""
    return request(1, bytes(promised))[:sent]


@contextmanager
def no_garbage_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def connections(server: Server, count: int, first: bytes) -> list[RawClient]:
    clients = [await server.connect() for _ in range(count)]
    for client in clients:
        client.send(first)
    return clients


async def test_what_is_promised_and_has_not_come_takes_no_memory() -> None:
    async with serving(api(echo)) as server:
        await connections(server, 100, half(50_000_000, 5))
        await until(lambda: sum(each._reader.pending for each in server.listener.connections) == 500)

        assert server.listener.budget.used <= 100 * KB

        other = await server.connect()
        assert await other.ask(b"short") == b"short"


async def test_half_of_a_request_counts_while_it_is_there() -> None:
    async with serving(api(echo)) as server:
        client = await server.connect()
        client.send(half(200 * KB, 100 * KB))
        await until(lambda: server.listener.budget.used >= 100 * KB)
        assert server.listener.budget.outstanding > 0

        client.send(request(1, bytes(200 * KB))[100 * KB :])

        assert len((await client.receive())[2]) == 200 * KB
        await until(lambda: server.listener.budget.used == server.listener.budget.outstanding == 0)


async def test_a_client_that_leaves_in_the_midst_of_a_request_gives_its_memory_back_at_once() -> None:
    with no_garbage_collector():
        async with serving(api(echo)) as server:
            clients = await connections(server, 10, half(200 * KB, 100 * KB))
            await until(lambda: server.listener.budget.used >= 1000 * KB)
            gone = [weakref.ref(connection) for connection in server.listener.connections]
            buffers = [weakref.ref(connection._reader._frame) for connection in server.listener.connections]  # type: ignore[type-var]

            for client in clients:
                await client.close()
            await until(lambda: not server.listener.connections)

            assert server.listener.budget.used == server.listener.budget.outstanding == 0
            assert not any(buffer() for buffer in buffers)
            await until(lambda: not any(connection() for connection in gone))


async def test_requests_that_have_begun_to_come_take_no_more_than_all_of_them_may() -> None:
    limit = 1000 * KB
    most = 0

    async with serving(api(echo), limits=Limits(total_bytes=limit, scarce_seconds=0.4)) as server:
        budget = server.listener.budget
        await connections(server, 20, half(300 * KB, 250 * KB))
        well_behaved = await server.connect()
        for _ in range(20):
            assert await well_behaved.ask(b"short") == b"short"
            most = max(most, budget.used)
            await asyncio.sleep(0.01)
        large = asyncio.create_task(well_behaved.ask(bytes(400 * KB)))
        while not large.done():
            most = max(most, budget.used)
            await asyncio.sleep(0.005)

        assert len(await large) == 400 * KB, "silent ones have to make room"
        # Each may have sent what is read at once before it is held back.
        assert most <= limit + 20 * 128 * KB


async def test_beginnings_of_long_requests_that_take_all_room_have_to_go_together() -> None:
    async with serving(api(echo), limits=Limits(total_bytes=1000 * KB, scarce_seconds=1.5)) as server:
        await connections(server, 8, half(300 * KB, 70 * KB))
        await until(lambda: server.listener.budget.is_spent)
        client = await server.connect()

        assert await client.ask(b"short") == b"short"  # one after the other they would take too long


async def test_long_requests_of_many_clients_come_one_after_the_other_and_nobody_is_closed() -> None:
    async with serving(api(echo), limits=Limits(total_bytes=500 * KB)) as server:
        clients = [await server.connect() for _ in range(12)]

        answers = await asyncio.gather(*(client.ask(bytes(400 * KB)) for client in clients))

        assert [len(answer) for answer in answers] == [400 * KB] * 12
        assert len(server.listener.connections) == 12
        await until(lambda: server.listener.budget.used == server.listener.budget.outstanding == 0)


async def test_a_request_longer_than_all_memory_that_there_is_gets_through() -> None:
    async with serving(api(echo), limits=Limits(total_bytes=100 * KB)) as server:
        client = await server.connect()

        assert len(await client.ask(bytes(1000 * KB))) == 1000 * KB


async def test_answers_that_are_not_read_count_and_have_to_make_room_for_others() -> None:
    def large(_: Context, ask: Ask) -> Tell:
        return Tell(bytes(ask.number))

    limits = Limits(total_bytes=4000 * KB, unread_bytes=64 * KB, scarce_seconds=0.4)
    async with serving(api(large), limits=limits) as server:
        budget = server.listener.budget
        lazy = [await server.connect() for _ in range(4)]
        for client in lazy:
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            client.send(request(1, number=8000 * KB))
        await until(lambda: budget.used >= 4000 * KB)
        assert server.listener.unread == budget.used

        reader = await server.connect()

        assert await asyncio.wait_for(reader.ask(b"", 10), 5) == bytes(10)
        await until(lambda: budget.used < 4000 * KB)
        for client in lazy:
            client.writer.transport.abort()
        server._clients[:] = [reader]
        await until(lambda: budget.used == server.listener.unread == 0)


async def test_requests_that_wait_for_their_turn_count() -> None:
    may_go_on = asyncio.Event()

    async def slow(_: Context, ask: Ask) -> Tell:
        await may_go_on.wait()
        return Tell(ask.text)

    async with serving(api(slow)) as server:
        client = await server.connect()
        for number in range(5):
            client.send(request(number, bytes(10 * KB)))
        await until(lambda: server.listener.budget.used >= 50 * KB)

        may_go_on.set()

        assert [(await client.receive())[0] for _ in range(5)] == list(range(5))
        await until(lambda: server.listener.budget.used == 0)


async def test_the_end_of_a_client_among_those_that_wait_lets_the_next_one_in() -> None:
    async with serving(api(echo), limits=Limits(total_bytes=400 * KB)) as server:
        first, second, third = [await server.connect() for _ in range(3)]
        first.send(half(390 * KB, 70 * KB))
        await until(lambda: server.listener.budget.outstanding > 0)
        second.send(half(390 * KB, 70 * KB))
        await until(lambda: server.listener.budget.is_short)
        answer = asyncio.create_task(third.ask(bytes(390 * KB)))
        await asyncio.sleep(0.02)

        await second.close()
        first.send(request(1, bytes(390 * KB))[70 * KB :])

        assert len((await first.receive())[2]) == 390 * KB
        assert len(await answer) == 390 * KB
