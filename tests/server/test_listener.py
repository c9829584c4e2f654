import asyncio
import socket

import pytest

from kompat.common.promise import Promise
from kompat.handlers.support.base import Context
from kompat.server.limits import Limits
from tests.server.support import Ask, RawClient, Tell, api, echo, request, serving, until


class LongPoll(Promise[Tell]):
    """Waits for something that never happens, unless it is told to complete_now."""

    def complete_now(self) -> None:
        self.resolve(Tell(b"nothing yet"))


async def test_many_connections_at_once() -> None:
    async with serving(api(echo)) as server:
        clients = await asyncio.gather(*(server.connect() for _ in range(300)))

        answers = await asyncio.gather(*(client.ask(b"%d" % n) for n, client in enumerate(clients)))

        assert answers == [b"%d" % n for n in range(300)]
        assert len(server.listener.connections) == 300


async def test_a_connection_beyond_the_limit_is_closed_and_the_others_stay() -> None:
    async with serving(api(echo), limits=Limits(connections=2)) as server:
        first, second, third = [await server.connect() for _ in range(3)]

        assert await third.is_closed()
        assert await first.ask(b"1") == b"1"
        await second.close()
        await until(lambda: len(server.listener.connections) == 1)
        fourth = await server.connect()
        assert await fourth.ask(b"4") == b"4"


@pytest.mark.parametrize(
    "limits", [Limits(connections_per_ip=2), Limits(connections_per_ip=0, connections_of_ip={"127.0.0.1": 2})]
)
async def test_connections_of_one_address_are_so_many_and_no_more(limits: Limits) -> None:
    async with serving(api(echo), limits=limits) as server:
        first, second, third = [await server.connect() for _ in range(3)]

        assert await third.is_closed()
        assert await first.ask(b"1") == b"1"
        await second.close()
        await until(lambda: len(server.listener.connections) == 1)
        assert await (await server.connect()).ask(b"4") == b"4"


async def test_other_addresses_are_not_touched_by_the_limit_of_one() -> None:
    limits = Limits(connections_of_ip={"127.0.0.2": 0})
    async with serving(api(echo), limits=limits) as server:
        kept_out = RawClient(*await asyncio.open_connection(server.host, server.port, local_addr=("127.0.0.2", 0)))

        assert await kept_out.is_closed()
        assert await (await server.connect()).ask(b"other") == b"other"
        await kept_out.close()


async def test_a_handler_learns_who_asks_and_which_address_was_dialled() -> None:
    seen: list[Context] = []

    def look(ctx: Context, _: Ask) -> Tell:
        seen.append(ctx)
        return Tell(b"")

    async with serving(api(look)) as server:
        await (await server.connect()).ask(b"")

        assert seen[0].local_address == ("127.0.0.1", server.port)
        assert seen[0].client_host == "127.0.0.1"
        assert seen[0].client_id == "test"
        assert seen[0].api_version == 3


async def test_draining_answers_what_is_under_way_and_takes_nothing_new() -> None:
    later: Promise[Tell] = Promise()
    async with serving(api(lambda _, ask: later)) as server:
        client = await server.connect()
        client.send(request(1))
        await until(lambda: server.listener.budget.used > 0)

        drained = asyncio.create_task(server.listener.drain(5))
        await asyncio.sleep(0.02)
        with pytest.raises(ConnectionError):
            await server.connect()
        later.resolve(Tell(b"done"))

        assert await client.receive() == (1, 0, b"done")
        assert await client.is_closed()
        await drained


async def test_draining_does_not_wait_for_long_polls() -> None:
    async with serving(api(lambda _, ask: LongPoll())) as server:
        client = await server.connect()
        client.send(request(1))
        await until(lambda: server.listener.budget.used > 0)

        async with asyncio.timeout(2):
            await server.listener.drain(5)

        assert await client.receive() == (1, 0, b"nothing yet")


async def test_draining_closes_idle_connections_at_once() -> None:
    async with serving(api(echo)) as server:
        client = await server.connect()
        await client.ask(b"hello")

        async with asyncio.timeout(1):
            await server.listener.drain(5)

        assert await client.is_closed()


async def test_draining_cuts_off_what_does_not_end() -> None:
    async with serving(api(lambda _, ask: Promise())) as server:
        client = await server.connect()
        client.send(request(1))
        await until(lambda: server.listener.budget.used > 0)

        await server.listener.drain(0.1)

        assert await client.is_closed()
        assert not server.listener.connections


async def test_small_answers_are_not_held_back_by_nagle() -> None:
    async with serving(api(echo)) as server:
        await (await server.connect()).ask(b"hello")
        (connection,) = server.listener.connections

        sock = connection._transport.get_extra_info("socket")

        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_draining_ends_changes_that_do_not_end_by_themselves() -> None:
    is_cancelled = asyncio.Event()
    has_begun = asyncio.Event()

    async def forever(_: Context, ask: Ask) -> Tell:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()
        return Tell(b"")

    async with serving(api(forever)) as server:
        client = await server.connect()
        client.send(request(1))
        await has_begun.wait()

        await server.listener.drain(0.05)

        async with asyncio.timeout(5):
            await is_cancelled.wait()
