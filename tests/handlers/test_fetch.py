"""Fetch: how it waits, what it tells listeners that hold records back, and that very many partitions hold nobody up."""

from __future__ import annotations

import asyncio
import gc
import warnings
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kompat.common.promise import Promise
from kompat.handlers import fetch
from kompat.handlers.support.base import Context
from kompat.handlers.support.fetch_room import FetchRoom
from kompat.handlers.support.fetch_sessions import FetchSessions
from kompat.handlers.support.services import Services
from kompat.log.partition import Origin
from kompat.protocol.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kompat.protocol.records import Record, build_batch, empty_batch, read_header
from kompat.server.dispatch import Dispatcher, Exchange
from kompat.types import ZERO_UUID, Millis
from tests.handlers import wire
from tests.handlers.turns import CLIENT, LONGEST_TURN, TRIES, api_of, create_topic, longest_turn, services
from tests.log.support import Log, run

__all__ = ["services"]

VERSION = 12


class Held:
    """Holds some records back, and releases one for each that asks."""

    counts_shares = False

    def __init__(self, log: Log, count: int) -> None:
        self.log = log
        self.count = count
        self.readers: list[object] = []
        self.asked_for: list[int] = []

    def reader_waiting(self, reader: object, max_bytes: int) -> bool:
        self.readers.append(reader)
        self.asked_for.append(max_bytes)
        if not self.count:
            return False
        self.count -= 1
        self.log.partition.append(memoryview(a_batch()), origin=Origin.INTERNAL)
        return True

    def reader_gone(self, reader: object) -> None:
        self.readers.remove(reader)

    def release_all(self) -> Promise[None]:
        return Promise.resolved(None)


def a_batch() -> bytearray:
    return build_batch([Record(0, 1_700_000_000_000, b"k", b"held")])


def a_log(held: int) -> tuple[Log, Held]:
    log = Log()
    fetch_listener = Held(log, held)
    log.partition.fetch_listener = fetch_listener
    return log, fetch_listener


def append(log: Log, batch: bytearray) -> None:
    log.stage(batch, Origin.INTERNAL)
    log.commit.end_turn()


def ask(log: Log, offset: int, *, wait: int = 10_000, **fields: Any) -> Any:
    services = SimpleNamespace(
        fetch_sessions=FetchSessions(10, Millis(1000), lambda: 1),
        fetch_max_bytes=1 << 20,
        fetch_room=FetchRoom(),
        clock=log.clock,
        logs=SimpleNamespace(find=lambda topic, index: log.partition),
        tracer=SimpleNamespace(used={}),
        cluster=SimpleNamespace(local=None),
        authorizer=SimpleNamespace(is_enabled=False),
        quotas=SimpleNamespace(is_enabled=False),
    )
    request = FetchRequest([FetchTopic("topic", ZERO_UUID, [FetchPartition(0, offset, 1000)])])
    request.max_wait_ms, request.min_bytes = wait, 1
    for name, value in fields.items():
        setattr(request, name, value)
    return fetch.handle(cast("Context", SimpleNamespace(services=services, client_id=None, api_version=12)), request)


def records(response: FetchResponse) -> int:
    """Those that a consumer is shown."""
    headers = map(read_header, response.responses[0].partitions[0].records or ())
    return sum(header.record_count for header in headers if not header.is_control)


async def test_a_fetch_that_finds_nothing_is_a_demand_and_gets_what_comes_of_it() -> None:
    log, fetch_listener = a_log(1)

    answer = ask(log, 0)
    assert fetch_listener.asked_for == [1000]
    assert len(fetch_listener.readers) == 1
    log.commit.end_turn()

    assert records(await answer) == 1
    assert not fetch_listener.readers


async def test_a_fetch_past_empty_batches_waits_for_what_comes_behind_them() -> None:
    log, _ = a_log(1)
    append(log, empty_batch(read_header(a_batch())))

    answer = ask(log, 0)
    assert isinstance(answer, Promise)
    log.commit.end_turn()

    assert records(await answer) == 1


async def test_without_anything_held_back_an_empty_batch_is_answered_at_once() -> None:
    log, fetch_listener = a_log(0)
    append(log, empty_batch(read_header(a_batch())))

    answer = ask(log, 0)

    assert isinstance(answer, FetchResponse)
    assert records(answer) == 0
    assert not fetch_listener.readers


async def test_who_waits_for_what_comes_later_leaves_with_the_answer() -> None:
    log, fetch_listener = a_log(0)

    answer = ask(log, 0)
    assert len(fetch_listener.readers) == 1
    append(log, a_batch())

    assert records(await answer) == 1
    assert not fetch_listener.readers
    assert len(fetch_listener.asked_for) == 1


async def test_who_goes_away_leaves() -> None:
    log, fetch_listener = a_log(0)

    ask(log, 0).cancel()

    assert not fetch_listener.readers


async def test_who_waits_for_more_bytes_than_there_are_is_a_demand() -> None:
    log, _ = a_log(1)
    append(log, a_batch())

    answer = ask(log, 0, min_bytes=len(a_batch()) + 1)
    log.commit.end_turn()

    assert records(await answer) == 2


async def test_a_fetch_that_does_not_wait_is_a_demand_for_the_next() -> None:
    log, fetch_listener = a_log(1)

    assert records(ask(log, 0, wait=0)) == 0
    log.commit.end_turn()

    assert records(ask(log, 0, wait=0)) == 1
    assert not fetch_listener.readers


async def test_a_fetch_that_finds_records_is_none() -> None:
    log, fetch_listener = a_log(1)
    append(log, a_batch())

    assert records(ask(log, 0)) == 1
    assert not fetch_listener.asked_for


async def test_a_replicas_fetch_is_none() -> None:
    log, fetch_listener = a_log(1)

    ask(log, 0, replica_id=2).cancel()

    assert not fetch_listener.asked_for


def test_a_read_from_the_store_is_one_too() -> None:
    async def scenario() -> None:
        log, fetch_listener = a_log(1)
        append(log, empty_batch(read_header(a_batch())))
        log.partition.log.tail.clear(log.partition.log_end_offset)

        assert records(await ask(log, 0)) == 0
        assert len(fetch_listener.asked_for) == 1
        assert not fetch_listener.readers

    run(scenario())


# -- very many partitions -----------------------------------------------------------------------------------------------
TOPICS, TOPIC_SIZE = 4, 7_000  # about as many partitions as a request can hold


def a_frame(topics: int, *, session: int = 0, epoch: int = 0, wait: int = 20) -> memoryview:
    message = wire.message("FetchRequest")
    partitions = [
        message.FetchTopic.FetchPartition(
            partition=index,
            current_leader_epoch=-1,
            fetch_offset=0,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1000,
        )
        for index in range(TOPIC_SIZE)
    ]
    wanted = [message.FetchTopic(topic=f"t{topic}", partitions=partitions) for topic in range(topics)]
    request = message(
        replica_id=-1, max_wait_ms=wait, min_bytes=1, max_bytes=1 << 20, isolation_level=0, session_id=session,
        session_epoch=epoch, topics=wanted, forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return memoryview(bytearray(wire.request_frame(request, VERSION)[4:]))


async def begin(services: Services, topics: int, **fields: int) -> Exchange:
    for topic in range(topics):
        await create_topic(services, f"t{topic}", TOPIC_SIZE)
    exchange = Dispatcher([api_of("Fetch")], services).dispatch(CLIENT, a_frame(topics, **fields))
    assert isinstance(exchange, Exchange)
    return exchange


async def answer_of(exchange: Exchange) -> Any:
    return wire.decode_response("Fetch", VERSION, b"".join(map(bytes, await exchange or ()))[4:])


@pytest.mark.slow
async def test_very_many_partitions_let_others_have_their_turns(services: Services) -> None:
    first = await answer_of(await begin(services, TOPICS))
    assert [len(topic.partitions) for topic in first.responses] == [TOPIC_SIZE] * TOPICS
    full: list[float] = []
    incremental: list[float] = []
    for epoch in range(1, TRIES + 1):
        full.append(await longest_turn(services, api_of("Fetch"), a_frame(TOPICS, epoch=-1)))
        frame = a_frame(0, session=first.session_id, epoch=epoch)
        incremental.append(await longest_turn(services, api_of("Fetch"), frame))

    assert min(full) < LONGEST_TURN
    assert min(incremental) < LONGEST_TURN


async def test_what_is_appended_while_many_partitions_are_looked_at_is_answered(services: Services) -> None:
    exchange = await begin(services, 1, wait=100_000)
    log = services.logs.find("t0", 0)
    assert log is not None
    while not log._waiters:  # noqa: ASYNC110 - it has been looked at, and most others have not
        await asyncio.sleep(0)
    log.append(memoryview(a_batch()), origin=Origin.INTERNAL)

    answer = await answer_of(exchange)

    assert [bool(p.records) for topic in answer.responses for p in topic.partitions].count(True) == 1


async def test_a_client_that_goes_while_its_request_is_decoded_leaves_nothing_behind(services: Services) -> None:
    exchange = await begin(services, 1, wait=100_000)

    exchange.abandon(is_final=False)
    while not isinstance(exchange._awaited, Promise):  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert exchange._awaited.is_done
    log = services.logs.find("t0", 0)
    assert log is not None
    assert not log._waiters


async def test_a_long_request_that_is_cancelled_before_it_begins_is_closed(services: Services) -> None:
    exchange = await begin(services, 1, wait=100_000)

    exchange.abandon(is_final=True)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        while not exchange._awaited.done():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        del exchange
        gc.collect()

    assert [str(each.message) for each in warned] == []


async def test_a_request_behind_one_that_is_decoded_does_not_wait_until_its_time_is_up(services: Services) -> None:
    exchange = await begin(services, 1, wait=100_000)

    exchange.complete_now()

    assert len((await answer_of(exchange)).responses) == 1
