"""A long poll ends exactly once: by data, by time, by whoever cannot wait, by a failure, or with its client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError
from kompat.log.fetch_listener import FetchListener
from kompat.log.long_poll import LongPoll, Steps
from kompat.log.waiters import Waiters

LONG = 100_000  # milliseconds


class Source:
    """Something that grows, of which some has to be read from the store; it is its own listener, too."""

    counts_shares = True

    def __init__(self) -> None:
        self.items = 0
        self.is_cold = False
        self.held = 0  # attempts that read
        self.reads: list[asyncio.Future[int]] = []
        self.readers: list[object] = []
        self.waiters: Waiters[Source] = Waiters()

    def watch(self, callback: Callable[[Source], None]) -> None:
        self.waiters.add(callback)

    def unwatch(self, callback: Callable[[Source], None]) -> None:
        self.waiters.remove(callback)

    def grow(self) -> None:
        self.items += 1
        self.waiters.fire(self)

    def read(self) -> Awaitable[int]:
        self.reads.append(asyncio.get_running_loop().create_future())
        return self.reads[-1]

    def end_reads(self, outcome: int | Exception) -> None:
        for read in self.reads:
            if not read.done():
                if isinstance(outcome, Exception):
                    read.set_exception(outcome)
                else:
                    read.set_result(outcome)

    def reader_waiting(self, reader: object, max_bytes: int) -> bool:
        if reader not in self.readers:
            self.readers.append(reader)
        return False

    def reader_gone(self, reader: object) -> None:
        self.readers.remove(reader)

    def release_all(self) -> Promise[None]:
        return Promise.resolved(None)

    @property
    def is_left_alone(self) -> bool:
        return not self.waiters and not self.readers and not self.held


class Poll(LongPoll[int]):
    """Wants as many items as it is told. It counts how often it is answered."""

    def __init__(self, source: Source, wanted: int = 1, max_wait_ms: int = LONG) -> None:
        super().__init__(max_wait_ms)
        self.source = source
        self.wanted = wanted
        self.attempts = 0
        self.answers: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.add_done_callback(lambda _: self.answers.append(self.source.items))

    def try_complete(self) -> Steps:
        self.attempts += 1
        is_last, items = self.is_expired, self.source.items
        if self.source.is_cold:
            self.source.held += 1
            try:
                items = yield self.source.read
            finally:
                self.source.held -= 1
        if is_last or items >= self.wanted:
            self.resolve(items)
            return
        self.watch(self.source)
        listener: FetchListener = self.source
        self.notify(listener, 1)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(super().spawn(work))
        return self.tasks[-1]


async def turns(count: int = 4) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_there_is_answered_without_a_timer_or_a_task() -> None:
    source = Source()
    source.grow()

    poll = Poll(source).start()

    assert poll.answers == [1]
    assert not poll.tasks
    assert source.is_left_alone


async def test_it_ends_by_data() -> None:
    source = Source()
    poll = Poll(source, 2).start()
    assert source.readers == [poll]

    source.grow()
    assert not poll.is_done
    source.grow()
    source.grow()

    assert poll.answers == [2]
    assert source.is_left_alone


async def test_it_ends_by_time() -> None:
    source = Source()
    poll = Poll(source, max_wait_ms=1).start()

    assert await poll == 0
    source.grow()

    assert poll.answers == [0]
    assert source.is_left_alone


async def test_who_does_not_wait_is_answered_at_once() -> None:
    assert Poll(Source(), max_wait_ms=0).start().answers == [0]


async def test_it_ends_now_where_others_wait_behind_it() -> None:
    source = Source()
    poll = Poll(source).start()

    poll.complete_now()
    poll.complete_now()

    assert poll.answers == [0]
    assert source.is_left_alone


async def test_it_ends_with_its_client_and_answers_nobody() -> None:
    source = Source()
    poll = Poll(source).start()

    poll.cancel()
    source.grow()
    poll.complete_now()

    assert poll.answers == []
    assert poll.attempts == 1
    assert source.is_left_alone


async def test_what_comes_while_the_store_is_read_is_looked_at_afterwards() -> None:
    source = Source()
    poll = Poll(source).start()
    source.is_cold = True
    source.grow()  # begins a read, which finds nothing
    await turns()
    source.grow()
    assert poll.attempts == 2
    source.is_cold = False
    source.end_reads(0)
    await turns()

    assert poll.answers == [2]
    assert poll.attempts == 3


async def test_who_cannot_wait_is_answered_when_the_store_was_read() -> None:
    source = Source()
    source.is_cold = True
    poll = Poll(source, 5).start()
    await turns()

    poll.complete_now()
    assert not poll.is_done
    source.end_reads(3)
    await turns()
    source.end_reads(3)
    await turns()

    assert len(poll.answers) == 1
    assert poll.result() == 3


async def test_a_client_that_goes_while_the_store_is_read_leaves_nothing_behind() -> None:
    source = Source()
    source.is_cold = True
    poll = Poll(source).start()
    await turns()

    poll.cancel()
    await turns()

    assert source.reads[0].cancelled()
    assert poll.answers == []
    assert source.is_left_alone


async def test_a_client_that_goes_before_the_store_is_read_leaves_nothing_behind() -> None:
    source = Source()
    source.is_cold = True
    poll = Poll(source).start()
    assert source.held == 1

    poll.cancel()

    assert source.is_left_alone
    await turns()
    assert not source.reads


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), ValueError("a bug")])
async def test_a_read_that_fails_fails_the_poll(error: Exception) -> None:
    source = Source()
    source.is_cold = True
    poll = Poll(source).start()
    await turns()

    source.end_reads(error)

    with pytest.raises(type(error)):
        await poll
    assert source.is_left_alone


async def test_an_attempt_that_wakes_itself_is_not_made_again() -> None:
    source = Source()

    class Noisy(Poll):
        def try_complete(self) -> Steps:
            self.watch(self.source)
            self.source.grow()
            return super().try_complete()

    poll = Noisy(source, 3).start()

    assert source.items == 1
    assert not poll.is_done
    poll.cancel()


async def test_long_work_lets_others_have_their_turns() -> None:
    class Busy(LongPoll[int]):
        def try_complete(self) -> Steps:
            for _ in range(300_000):
                yield None
            self.resolve(0)

    poll = Busy(LONG).start()
    assert not poll.is_done
    others = 0
    while not poll.is_done:
        await asyncio.sleep(0)
        others += 1

    assert others > 1


EVENTS = st.lists(st.sampled_from(["grow", "cold", "warm", "read", "broken", "turn", "hurry", "time", "gone"]))


@given(EVENTS, st.integers(1, 3))
def test_whatever_happens_it_ends_once_and_leaves_nothing_behind(events: list[str], wanted: int) -> None:
    async def scenario() -> None:
        source = Source()
        poll = Poll(source, wanted)
        is_gone = False
        poll.start()
        actions: dict[str, Callable[[], object]] = {
            "grow": source.grow,
            "read": lambda: source.end_reads(source.items),
            "broken": lambda: source.end_reads(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)),
            "hurry": poll.complete_now,
            "time": lambda: poll._timer is None or poll._timer.cancelled() or poll.complete_now(),
            "gone": poll.cancel,
        }
        for event in events:
            was_done = poll.is_done
            if event == "turn":
                await turns()
            elif event in ("cold", "warm"):
                source.is_cold = event == "cold"
            else:
                actions[event]()
            is_gone = is_gone or (event == "gone" and not was_done)
            is_under_way = any(not task.done() for task in poll.tasks)
            assert len(poll.answers) == (poll.is_done and not is_gone)
            assert not poll.is_done or source.is_left_alone
            assert poll.is_done or is_under_way or source.items < wanted or source.is_cold or poll.attempts == 0
        source.is_cold = False
        poll.complete_now()
        for _ in range(2):
            await turns()
            source.end_reads(source.items)
        await turns()
        assert poll.is_done
        assert len(poll.answers) == (not is_gone)
        assert source.is_left_alone
        assert all(task.done() for task in poll.tasks)
        for read in source.reads:
            assert read.cancelled() or read.done()

    asyncio.run(scenario())
