import asyncio
import struct
import time

import pytest

from kompat.common.promise import Promise
from kompat.common.slices import SLICE_SECONDS
from kompat.handlers.support.base import Context
from kompat.protocol.api_keys import ApiKey
from kompat.server.connection import REQUESTS_A_TURN, Connection
from kompat.server.limits import Limits
from tests.server.support import Ask, Tell, api, echo, framed, request, serving, until


class Held:
    """A handler whose answers wait until they are let go, by number."""

    def __init__(self) -> None:
        self.laters: dict[int, Promise[Tell]] = {}
        self.texts: dict[int, bytes] = {}

    def __call__(self, _: Context, ask: Ask) -> Promise[Tell]:
        self.texts[ask.number] = ask.text
        self.laters[ask.number] = Promise()
        return self.laters[ask.number]

    def release(self, number: int) -> None:
        self.laters[number].resolve(Tell(self.texts[number]))


async def test_an_answer_at_once() -> None:
    async with serving(api(echo)) as server:
        client = await server.connect()

        assert await client.ask(b"hello") == b"hello"


async def test_answers_leave_in_request_order_whatever_order_they_are_ready_in() -> None:
    held = Held()
    async with serving(api(held)) as server:
        client = await server.connect()
        for number in range(5):
            client.send(request(number, b"%d" % number, number))
        await until(lambda: len(held.laters) == 5)

        for number in (4, 2, 0, 3, 1):
            held.release(number)

        assert [await client.receive() for _ in range(5)] == [(n, 0, b"%d" % n) for n in range(5)]


async def test_answers_that_become_ready_together_go_out_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    held, writes = Held(), []
    written = Connection._write
    monkeypatch.setattr(
        Connection, "_write", lambda self, buffers, size: (writes.append(size), written(self, buffers, size))
    )
    async with serving(api(held)) as server:
        client = await server.connect()
        for number in range(6):
            client.send(request(number, b"%d" % number, number))
        await until(lambda: len(held.laters) == 6)

        for number in (0, 1, 2):
            held.release(number)
        assert [await client.receive() for _ in range(3)] == [(n, 0, b"%d" % n) for n in range(3)]
        assert len(writes) == 1  # though others are still under way

        for number in (5, 4, 3):
            held.release(number)
        assert len(writes) == 2  # at once: there is nothing left to wait for
        assert [await client.receive() for _ in range(3)] == [(n, 0, b"%d" % n) for n in range(3, 6)]


async def test_answers_that_wait_for_their_write_are_dropped_when_the_connection_is_closed_before() -> None:
    held = Held()
    async with serving(api(held)) as server:
        client = await server.connect()
        client.send(request(0, number=0) + request(1, number=1))
        await until(lambda: len(held.laters) == 2)
        connection = next(iter(server.listener.connections))

        held.release(0)
        connection.abort()
        held.release(1)

        assert await client.is_closed()
        await until(lambda: server.listener.budget.used == 0)


async def test_requests_are_worked_on_while_an_earlier_one_waits() -> None:
    held = Held()
    async with serving(api(held)) as server:
        client = await server.connect()
        client.send(request(0, number=0))
        client.send(request(1, number=1))

        await until(lambda: set(held.laters) == {0, 1})
        held.release(0)
        held.release(1)


async def test_an_answer_at_once_waits_behind_a_slow_one() -> None:
    held = Held()

    def either(ctx: Context, ask: Ask) -> Tell | Promise[Tell]:
        return held(ctx, ask) if ask.number == 0 else Tell(ask.text)

    async with serving(api(either)) as server:
        client = await server.connect()
        client.send(request(0, b"slow", 0) + request(1, b"fast", 1))
        await until(lambda: 0 in held.laters)

        held.release(0)

        assert [await client.receive(), await client.receive()] == [(0, 0, b"slow"), (1, 0, b"fast")]


async def test_a_coroutine_may_answer() -> None:
    async def later(_: Context, ask: Ask) -> Tell:
        await asyncio.sleep(0)
        return Tell(ask.text)

    async with serving(api(later)) as server:
        client = await server.connect()

        assert await client.ask(b"from a task") == b"from a task"


async def test_a_request_that_wants_no_answer_gets_none() -> None:
    def silent(_: Context, ask: Ask) -> Tell | None:
        return None if ask.number == 0 else Tell(ask.text)

    async with serving(api(silent)) as server:
        client = await server.connect()
        client.send(request(7, number=0) + request(8, b"answered", number=1))

        assert await client.receive() == (8, 0, b"answered")


async def test_frames_may_arrive_byte_by_byte() -> None:
    async with serving(api(echo)) as server:
        client = await server.connect()
        for byte in request(3, b"slowly"):
            client.send(bytes([byte]))
            await asyncio.sleep(0)

        assert await client.receive() == (3, 0, b"slowly")


async def test_a_large_request_and_a_large_answer_go_through() -> None:
    text = bytes(range(256)) * 40_000
    async with serving(api(echo)) as server:
        client = await server.connect()

        assert await client.ask(text) == text


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: kompat\r\n\r\n",
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -5),
        struct.pack(">i", 0),
        framed(b"\x00"),
        framed(b"\x00\x00\x00\x03\x00\x00\x00\x01\x7f\xff"),
    ],
    ids=["http", "huge", "negative", "zero", "too short", "client id beyond the end"],
)
async def test_garbage_closes_its_connection_and_no_other(garbage: bytes) -> None:
    async with serving(api(echo)) as server:
        good, bad = await server.connect(), await server.connect()
        bad.send(garbage)

        assert await bad.is_closed()
        assert await good.ask(b"still here") == b"still here"


async def test_what_came_before_garbage_is_answered() -> None:
    held = Held()
    async with serving(api(held)) as server:
        client = await server.connect()
        client.send(request(1, b"good"))
        await until(lambda: 0 in held.laters)
        client.send(struct.pack(">i", -1))
        await asyncio.sleep(0.02)

        held.release(0)

        assert await client.receive() == (1, 0, b"good")
        assert await client.is_closed()


async def test_half_a_request_is_closed_in_time() -> None:
    async with serving(api(echo), limits=Limits(stall_seconds=0.1)) as server:
        good, bad = await server.connect(), await server.connect()
        bad.send(request(1, b"hello")[:-1])

        assert await bad.is_closed()
        assert await good.ask(b"hello") == b"hello"


async def test_a_byte_now_and_then_does_not_keep_a_connection() -> None:
    async with serving(api(echo), limits=Limits(stall_seconds=0.2)) as server:
        client = await server.connect()
        data = request(1, b"x" * 10_000)
        closed = asyncio.create_task(client.is_closed())
        for byte in data:
            if closed.done():
                break
            client.send(bytes([byte]))
            await asyncio.sleep(0.01)

        assert await closed


async def test_an_idle_connection_is_closed() -> None:
    async with serving(api(echo), limits=Limits(idle_seconds=0.1)) as server:
        client = await server.connect()
        await client.ask(b"hello")

        assert await client.is_closed()


async def test_a_client_that_never_reads_is_not_read_from_and_then_closed() -> None:
    answered = 0

    def large(_: Context, ask: Ask) -> Tell:
        nonlocal answered
        answered += 1
        return Tell(bytes(1 << 20))

    limits = Limits(unread_seconds=0.3, unread_bytes=1 << 20)
    async with serving(api(large), limits=limits) as server:
        client = await server.connect()
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(1000):
            client.send(request(number))
        await until(lambda: len(server.listener.connections) == 1)

        await until(lambda: not server.listener.connections)

        assert answered < 20, "the broker went on answering into a full socket"


async def test_a_slow_reader_gets_everything_in_the_end() -> None:
    async with serving(api(lambda _, ask: Tell(bytes(1 << 20)))) as server:
        client = await server.connect()
        for number in range(50):
            client.send(request(number))

        for number in range(50):
            correlation_id, _, text = await client.receive()
            assert correlation_id == number
            assert len(text) == 1 << 20


async def test_reading_stops_while_a_connection_has_too_many_bytes_under_way() -> None:
    held = Held()
    async with serving(api(held), limits=Limits(connection_bytes=100_000)) as server:
        client = await server.connect()
        for number in range(100):
            client.send(request(number, bytes(10_000), number))
        await until(lambda: len(held.laters) >= 10)
        await asyncio.sleep(0.05)
        assert len(held.laters) <= 11

        for number in range(100):
            await until(lambda n=number: n in held.laters)  # type: ignore[misc]
            held.release(number)

        assert [(await client.receive())[0] for _ in range(100)] == list(range(100))


async def test_reading_stops_while_a_connection_has_too_many_requests_under_way() -> None:
    held = Held()
    async with serving(api(held), limits=Limits(connection_requests=8)) as server:
        client = await server.connect()
        client.send(b"".join(request(number, number=number) for number in range(50)))
        await until(lambda: len(held.laters) == 8)
        await asyncio.sleep(0.02)
        assert len(held.laters) == 8

        for number in range(50):
            await until(lambda n=number: n in held.laters)  # type: ignore[misc]
            held.release(number)

        assert [(await client.receive())[0] for _ in range(50)] == list(range(50))


async def test_answers_that_wait_for_their_turn_count_as_bytes_under_way() -> None:
    held = Held()
    async with serving(api(held), limits=Limits(connection_bytes=100_000)) as server:
        client = await server.connect()
        client.send(b"".join(request(number, number=number) for number in range(5)))
        await until(lambda: len(held.laters) == 5)
        held.laters[4].resolve(Tell(bytes(200_000)))
        client.send(request(5, number=5))
        await asyncio.sleep(0.05)
        assert 5 not in held.laters

        for number in range(4):
            held.release(number)
        await until(lambda: 5 in held.laters)
        held.release(5)

        assert [(await client.receive())[0] for _ in range(6)] == list(range(6))


async def test_reading_stops_everywhere_while_all_connections_together_have_too_much_under_way() -> None:
    held = Held()
    async with serving(api(held), limits=Limits(total_bytes=50_000)) as server:
        clients = [await server.connect() for _ in range(10)]
        for number, client in enumerate(clients):
            client.send(request(number, bytes(20_000), number))
        await until(lambda: len(held.laters) >= 3)
        await asyncio.sleep(0.05)
        assert len(held.laters) == 3

        released: set[int] = set()
        while len(released) < 10:
            await until(lambda: bool(held.laters.keys() - released))
            for number in held.laters.keys() - released:
                held.release(number)
                released.add(number)

        assert [(await client.receive())[0] for client in clients] == list(range(10))
        assert server.listener.budget.used == 0


class Poll(Promise[Tell]):
    def __init__(self) -> None:
        super().__init__()
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class EndlessPoll(Promise[Tell]):
    """Answers when it is told to complete_now, and never by itself."""

    def complete_now(self) -> None:
        self.resolve(Tell(b"nothing yet"))


async def test_a_long_poll_ends_when_another_request_waits_behind_it() -> None:
    key = ApiKey.Fetch
    polls: list[EndlessPoll] = []

    def poll(_: Context, ask: Ask) -> EndlessPoll:
        polls.append(EndlessPoll())
        return polls[-1]

    async with serving(api(poll, key=key), api(echo)) as server:
        client = await server.connect()
        client.send(request(1, key=key) + request(2, key=key))
        await until(lambda: len(polls) == 1)
        await asyncio.sleep(0.02)
        assert not polls[0].is_done, "a poll was ended by another poll behind it"
        assert len(polls) == 1, "a poll began before the one before it was answered"

        client.send(request(3, b"urgent"))

        found = [await client.receive() for _ in range(3)]
        assert [(number, text) for number, _, text in found] == [
            (1, b"nothing yet"),
            (2, b"nothing yet"),
            (3, b"urgent"),
        ]


CHANGE, LOOK = ApiKey.CreateTopics, ApiKey.Metadata


async def test_a_request_begins_when_those_before_it_have_been_answered() -> None:
    begun: list[int] = []
    may_go_on = asyncio.Event()

    async def change(_: Context, ask: Ask) -> Tell:
        begun.append(ask.number)
        await may_go_on.wait()
        return Tell(b"changed")

    def look(_: Context, ask: Ask) -> Tell:
        begun.append(ask.number)
        return Tell(b"seen")

    async with serving(api(change, key=CHANGE), api(look, key=LOOK)) as server:
        client = await server.connect()
        client.send(
            request(1, number=1, key=CHANGE) + request(2, number=2, key=LOOK) + request(3, number=3, key=CHANGE)
        )
        await until(lambda: bool(begun))
        client.send(request(4, number=4, key=LOOK))
        await asyncio.sleep(0.02)
        assert begun == [1]

        may_go_on.set()

        assert [(await client.receive())[::2] for _ in range(4)] == [
            (1, b"changed"),
            (2, b"seen"),
            (3, b"changed"),
            (4, b"seen"),
        ]
    assert begun == [1, 2, 3, 4]


async def test_nothing_passes_a_produce_that_is_not_in_the_log_yet_nor_looks_at_one_that_is_not_committed() -> None:
    begun: list[int] = []
    committed: dict[int, Promise[Tell]] = {}

    def produce(_: Context, ask: Ask) -> Promise[Tell]:
        begun.append(ask.number)
        committed[ask.number] = Promise()
        return committed[ask.number]

    async def transactional(ctx: Context, ask: Ask) -> Tell:
        found = await produce(ctx, ask)
        assert found is not None
        return found

    def either(ctx: Context, ask: Ask) -> object:
        return transactional(ctx, ask) if ask.text == b"transactional" else produce(ctx, ask)

    def look(_: Context, ask: Ask) -> Tell:
        begun.append(ask.number)
        return Tell(b"")

    async with serving(api(either), api(look, key=LOOK)) as server:
        client = await server.connect()
        texts = (b"", b"", b"transactional", b"")
        client.send(b"".join(request(number, text, number) for number, text in enumerate(texts)))
        client.send(request(4, number=4, key=LOOK) + request(5, number=5))
        for number, known in ((2, [0, 1, 2]), (0, [0, 1, 2]), (1, [0, 1, 2, 3]), (3, [0, 1, 2, 3, 4, 5])):
            await until(lambda n=number: n in committed)  # type: ignore[misc]
            committed[number].resolve(Tell(b""))
            await until(lambda k=known: begun == k)  # type: ignore[misc]
        committed[5].resolve(Tell(b""))

        assert [(await client.receive())[0] for _ in range(6)] == list(range(6))


async def test_a_client_that_leaves_gives_its_bytes_back_and_its_long_polls_end() -> None:
    polls: list[Poll] = []

    def poll(_: Context, ask: Ask) -> Poll:
        polls.append(Poll())
        return polls[-1]

    async with serving(api(poll)) as server:
        client = await server.connect()
        client.send(request(1, bytes(1000)))
        await until(lambda: len(polls) == 1)
        assert server.listener.budget.used > 1000

        await client.close()

        await until(lambda: polls[0].is_cancelled)
        assert server.listener.budget.used == 0


async def test_a_change_goes_on_when_the_client_that_asked_for_it_leaves() -> None:
    may_go_on = asyncio.Event()
    is_done = asyncio.Event()
    has_begun = asyncio.Event()

    async def change(_: Context, ask: Ask) -> Tell:
        has_begun.set()
        await may_go_on.wait()
        is_done.set()
        return Tell(b"")

    async with serving(api(change)) as server:
        client = await server.connect()
        client.send(request(1))
        await has_begun.wait()
        await client.close()
        await until(lambda: not server.listener.connections)

        may_go_on.set()

        async with asyncio.timeout(5):
            await is_done.wait()


async def test_an_answer_after_the_client_has_left_is_dropped() -> None:
    held = Held()
    async with serving(api(held)) as server:
        client = await server.connect()
        client.send(request(1))
        await until(lambda: 0 in held.laters)
        await client.close()
        await until(lambda: not server.listener.connections)

        held.release(0)

        other = await server.connect()
        other.send(request(2, b"next", number=1))
        await until(lambda: 1 in held.laters)
        held.release(1)
        assert await other.receive() == (2, 0, b"next")


async def test_a_client_with_many_requests_does_not_keep_the_others_waiting() -> None:
    order: list[int] = []

    def note(_: Context, ask: Ask) -> Tell:
        order.append(ask.number)
        return Tell(b"")

    async with serving(api(note)) as server:
        greedy, modest = await server.connect(), await server.connect()
        greedy.send(b"".join(request(number, number=1) for number in range(2000)))
        modest.send(request(1, number=2))
        await modest.receive()
        for number in range(2000):
            assert (await greedy.receive())[0] == number

    assert order.index(2) < 1500


async def test_a_client_with_costly_requests_has_as_much_time_as_the_others_and_not_as_many_requests() -> None:
    order: list[int] = []

    def work(_: Context, ask: Ask) -> Tell:
        order.append(ask.number)
        if ask.number == 1:
            time.sleep(2 * SLICE_SECONDS)
        return Tell(b"")

    async with serving(api(work)) as server:
        greedy, modest = await server.connect(), await server.connect()
        greedy.send(b"".join(request(number, number=1) for number in range(REQUESTS_A_TURN)))
        modest.send(request(1, number=2))
        await modest.receive()
        for number in range(REQUESTS_A_TURN):
            assert (await greedy.receive())[0] == number

    assert order.index(2) < REQUESTS_A_TURN // 4


async def test_answers_that_become_ready_do_not_give_their_client_further_turns() -> None:
    """Each of them makes room; what waits behind them begins in the client's own turns all the same."""
    order: list[int] = []
    waiting: list[Promise[Tell]] = []

    def work(_: Context, ask: Ask) -> Tell | Promise[Tell]:
        order.append(ask.number)
        if ask.number == 0:
            waiting.append(Promise())
            return waiting[-1]
        if ask.number == 1:
            time.sleep(2 * SLICE_SECONDS)
        return Tell(b"")

    async with serving(api(work)) as server:
        greedy, modest = await server.connect(), await server.connect()
        greedy.send(b"".join(request(number, number=0) for number in range(10)))
        await until(lambda: len(waiting) == 10)
        greedy.send(b"".join(request(number, number=1) for number in range(10, 40)))
        await until(lambda: 1 in order)
        modest.send(request(1, number=2))
        for each in waiting:
            each.resolve(Tell(b""))
        await modest.receive()
        for number in range(40):
            assert (await greedy.receive())[0] == number

    assert order.index(2) - order.index(1) < 10
