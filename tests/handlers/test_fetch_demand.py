"""A fetch at the log's end tells whoever holds records back, for as long as it waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kompat.handlers import fetch
from kompat.handlers.base import Context
from kompat.handlers.fetch_room import FetchRoom
from kompat.handlers.fetch_sessions import FetchSessions
from kompat.handlers.later import Later
from kompat.log.commit import Pending
from kompat.log.partition import Origin
from kompat.protocol.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kompat.protocol.records import Record, build_batch, empty_batch, read_header
from kompat.types import ZERO_UUID, Millis
from tests.log.support import Log, run


class Held:
    """Holds some records back, and releases one for each that asks."""

    counts_shares = False

    def __init__(self, log: Log, count: int) -> None:
        self.log = log
        self.count = count
        self.readers: list[object] = []
        self.asked_for: list[int] = []

    def asked(self, reader: object, max_bytes: int) -> bool:
        self.readers.append(reader)
        self.asked_for.append(max_bytes)
        if not self.count:
            return False
        self.count -= 1
        self.log.partition.append(memoryview(a_batch()), origin=Origin.INTERNAL)
        return True

    def left(self, reader: object) -> None:
        self.readers.remove(reader)

    def settle(self) -> Pending:
        return Pending.done()


def a_batch() -> bytearray:
    return build_batch([Record(0, 1_700_000_000_000, b"k", b"held")])


def a_log(held: int) -> tuple[Log, Held]:
    log = Log()
    demand = Held(log, held)
    log.partition.demand = demand
    return log, demand


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
        cluster=SimpleNamespace(member=None),
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
    log, demand = a_log(1)

    answer = ask(log, 0)
    assert demand.asked_for == [1000]
    assert len(demand.readers) == 1
    log.commit.end_turn()

    assert records(await answer) == 1
    assert not demand.readers


async def test_a_fetch_past_empty_batches_waits_for_what_comes_behind_them() -> None:
    log, _ = a_log(1)
    append(log, empty_batch(read_header(a_batch())))

    answer = ask(log, 0)
    assert isinstance(answer, Later)
    log.commit.end_turn()

    assert records(await answer) == 1


async def test_without_anything_held_back_an_empty_batch_is_answered_at_once() -> None:
    log, demand = a_log(0)
    append(log, empty_batch(read_header(a_batch())))

    answer = ask(log, 0)

    assert isinstance(answer, FetchResponse)
    assert records(answer) == 0
    assert not demand.readers


async def test_who_waits_for_what_comes_later_leaves_with_the_answer() -> None:
    log, demand = a_log(0)

    answer = ask(log, 0)
    assert len(demand.readers) == 1
    append(log, a_batch())

    assert records(await answer) == 1
    assert not demand.readers
    assert len(demand.asked_for) == 1


async def test_who_goes_away_leaves() -> None:
    log, demand = a_log(0)

    ask(log, 0).cancel()

    assert not demand.readers


async def test_who_waits_for_more_bytes_than_there_are_is_a_demand() -> None:
    log, _ = a_log(1)
    append(log, a_batch())

    answer = ask(log, 0, min_bytes=len(a_batch()) + 1)
    log.commit.end_turn()

    assert records(await answer) == 2


async def test_a_fetch_that_does_not_wait_is_a_demand_for_the_next() -> None:
    log, demand = a_log(1)

    assert records(ask(log, 0, wait=0)) == 0
    log.commit.end_turn()

    assert records(ask(log, 0, wait=0)) == 1
    assert not demand.readers


async def test_a_fetch_that_finds_records_is_none() -> None:
    log, demand = a_log(1)
    append(log, a_batch())

    assert records(ask(log, 0)) == 1
    assert not demand.asked_for


async def test_a_replicas_fetch_is_none() -> None:
    log, demand = a_log(1)

    ask(log, 0, replica_id=2).cancel()

    assert not demand.asked_for


def test_a_read_from_the_store_is_one_too() -> None:
    async def scenario() -> None:
        log, demand = a_log(1)
        append(log, empty_batch(read_header(a_batch())))
        log.partition._tail.clear(log.partition.log_end_offset)

        assert records(await ask(log, 0)) == 0
        assert len(demand.asked_for) == 1
        assert not demand.readers

    run(scenario())
