"""Share partitions whose state another broker coordinates: what is acknowledged is kept there, and whoever comes late is
fenced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition
from kompat.share.machine.messages import AckType, RecordState, StateBatch, Update, merged
from kompat.share.machine.state import Fence, ShareStateMachine, Stored, Writing
from kompat.share.records import ShareKey
from kompat.types import LeaderEpoch, LogId, Millis, Offset
from tests.share.support import GROUP, ORDERS, Links, Shop

ACCEPT, RELEASE = AckType.ACCEPT, AckType.RELEASE
KEY = ShareKey("g", UUID(int=1), 0)
NOW = Millis(1000)


@pytest.fixture
async def shops() -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:

        def make(*args: Any, **kwargs: Any) -> Shop:
            shop = Shop(*args, **kwargs)
            stack.push_async_callback(shop.close)
            return shop

        yield make


async def test_what_is_acknowledged_is_kept_by_the_other_broker(shops: Any) -> None:
    links = Links(shops())
    shop = shops(links=links)
    await shop.produce(10)
    assert await shop.fetch_offsets("alice") == list(range(10))
    assert await shop.acknowledge("alice", (0, 2, ACCEPT), (5, 6, ACCEPT)) is None
    described = await shop.service.offsets.describe(GROUP, LogId(ORDERS, 0))
    assert (described.start_offset, described.lag) == (3, 5)

    shop = await shop.crash(links=links)
    fetched = await shop.fetch("bob")
    assert [tuple(span) for span in fetched.acquired] == [(3, 4, 1), (7, 9, 1)]
    await shop.close()


async def test_a_write_whose_answer_got_lost_is_written_once_and_answered(shops: Any) -> None:
    links = Links(shops())
    shop = shops(links=links)
    await shop.produce(4)
    await shop.fetch_offsets("alice")
    links.lost_answers = 2
    assert await shop.acknowledge("alice", (0, 1, ACCEPT)) is None
    assert links.sent.count("WriteState") == 3
    assert not next(iter(shop.service._live.values())).is_fenced
    assert (await shop.service.offsets.describe(GROUP, LogId(ORDERS, 0))).start_offset == 2


async def test_a_bug_on_the_way_to_the_other_broker_keeps_nobody_waiting(
    shops: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = Links(shops())
    shop = shops(links=links)
    await shop.produce(2)
    await shop.fetch_offsets("alice")

    async def broken(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(links, "call", broken)
        async with asyncio.timeout(30):
            error = await shop.acknowledge("alice", (0, 1, ACCEPT))
    assert error is not None
    assert await shop.fetch_offsets("bob") == [0, 1]  # loaded anew, from what is kept


async def test_changes_that_are_made_while_one_is_on_its_way_go_together(shops: Any) -> None:
    links = Links(shops())
    shop = shops(links=links)
    await shop.produce(20)
    await shop.fetch_offsets("alice")
    answers = await asyncio.gather(*(shop.acknowledge("alice", (offset, offset, ACCEPT)) for offset in range(20)))
    assert answers == 20 * [None]
    assert links.sent.count("WriteState") <= 2
    assert (await shop.service.offsets.describe(GROUP, LogId(ORDERS, 0))).start_offset == 20


async def test_a_broker_that_does_not_lead_any_more_is_fenced(shops: Any) -> None:
    links = Links(shops())
    old, new = shops(links=links), shops(links=links)
    new.orders.lead(LeaderEpoch(1))
    for shop in (old, new):
        await shop.produce(4)
    assert await old.fetch_offsets("alice") == [0, 1, 2, 3]
    assert await new.fetch_offsets("bob") == [0, 1, 2, 3]
    error = await old.acknowledge("alice", (0, 3, ACCEPT))
    assert error is not None
    assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not old.service._live
    assert await new.acknowledge("bob", (0, 0, ACCEPT)) is None
    assert (await new.service.offsets.describe(GROUP, LogId(ORDERS, 0))).start_offset == 1


async def test_a_group_that_begins_anew_fences_who_uses_it(shops: Any) -> None:
    links = Links(shops())
    shop = shops(links=links)
    await shop.produce(4)
    await shop.fetch_offsets("alice")
    await links.coordinator.service.offsets.alter(GROUP, {LogId(ORDERS, 0): Offset(2)})
    error = await shop.acknowledge("alice", (0, 3, ACCEPT))
    assert error is not None
    assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await shop.fetch_offsets("alice") == [2, 3]


async def test_a_change_that_too_few_replicas_could_take_is_written_when_there_are_enough(
    shops: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shops()
    await shop.produce(4)
    await shop.fetch_offsets("alice")
    append, refusals = Partition.append, iter(range(3))

    def refuse(partition: Partition, *args: Any, **options: Any) -> Any:
        if partition.topic == "__share_group_state" and next(refusals, None) is not None:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return append(partition, *args, **options)

    monkeypatch.setattr(Partition, "append", refuse)
    first = asyncio.ensure_future(shop.acknowledge("alice", (0, 0, ACCEPT)))
    second = asyncio.ensure_future(shop.acknowledge("alice", (1, 1, ACCEPT)))
    assert await asyncio.gather(first, second) == [None, None]
    assert next(refusals, None) is None
    assert await shop.acknowledge("alice", (2, 2, ACCEPT)) is None
    assert (await shop.service.offsets.describe(GROUP, LogId(ORDERS, 0))).start_offset == 3


# -- the machine -------------------------------------------------------------------------------------------------------
def run(machine: ShareStateMachine, decision: Any) -> Any:
    for record in decision.records:
        machine.apply(record)
    return decision.reply


def accepted(first: int, last: int, start: int = 0) -> Update:
    return Update(Offset(start), 0, (StateBatch(first, last, RecordState.ACKNOWLEDGED, 1),))


def begun() -> ShareStateMachine:
    machine = ShareStateMachine()
    run(machine, machine.begin(KEY, Offset(0), leader_epoch=LeaderEpoch(3), now=NOW, writer="a"))
    return machine


def refusal(machine: ShareStateMachine, fence: Fence, writing: Writing) -> ErrorCode | None:
    try:
        run(machine, machine.write_numbered(KEY, accepted(5, 5), fence, NOW, writing))
    except KafkaError as error:
        return error.code
    return None


def test_only_the_newest_load_in_the_newest_epochs_writes() -> None:
    machine = begun()
    fence = Fence(LeaderEpoch(3), 0)
    assert refusal(machine, fence, Writing("a", 1)) is None
    assert refusal(machine, Fence(LeaderEpoch(2), 0), Writing("a", 2)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(machine, Fence(LeaderEpoch(3), 1), Writing("a", 2)) is ErrorCode.FENCED_STATE_EPOCH
    run(machine, machine.begin(KEY, Offset(0), leader_epoch=LeaderEpoch(3), now=NOW, writer="b"))
    assert refusal(machine, fence, Writing("a", 2)) is ErrorCode.FENCED_STATE_EPOCH
    assert refusal(machine, fence, Writing("b", 1)) is None
    with pytest.raises(KafkaError) as raised:
        machine.begin(KEY, Offset(0), leader_epoch=LeaderEpoch(2), now=NOW)
    assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH
    run(machine, machine.delete([KEY]))
    assert refusal(machine, fence, Writing("b", 2)) is ErrorCode.FENCED_STATE_EPOCH


def test_a_write_that_comes_late_does_not_undo_a_newer_one() -> None:
    machine, fence = begun(), Fence(LeaderEpoch(3), 0)
    released = Update(Offset(0), 0, (StateBatch(1, 1, RecordState.AVAILABLE, 1),))
    run(machine, machine.write_numbered(KEY, released, fence, NOW, Writing("a", 1)))
    run(machine, machine.write_numbered(KEY, accepted(1, 1), fence, NOW, Writing("a", 2)))
    run(machine, machine.write_numbered(KEY, released, fence, NOW, Writing("a", 1)))
    stored = machine.read(KEY).reply
    assert isinstance(stored, Stored)
    assert [batch.state for batch in stored.batches] == [RecordState.ACKNOWLEDGED]


def test_a_writer_that_begins_twice_does_not_write_again_what_it_has_written() -> None:
    machine, fence = begun(), Fence(LeaderEpoch(3), 0)
    released = Update(Offset(0), 0, (StateBatch(1, 1, RecordState.AVAILABLE, 1),))
    run(machine, machine.write_numbered(KEY, released, fence, NOW, Writing("a", 1)))
    run(machine, machine.write_numbered(KEY, accepted(1, 1), fence, NOW, Writing("a", 2)))
    run(machine, machine.begin(KEY, Offset(0), leader_epoch=LeaderEpoch(3), now=NOW, writer="a"))  # it was late
    run(machine, machine.write_numbered(KEY, released, fence, NOW, Writing("a", 1)))
    stored = machine.read(KEY).reply
    assert isinstance(stored, Stored)
    assert [batch.state for batch in stored.batches] == [RecordState.ACKNOWLEDGED]


def test_a_new_leader_epoch_outlives_the_machine() -> None:
    machine = begun()
    run(machine, machine.begin(KEY, Offset(0), leader_epoch=LeaderEpoch(4), now=NOW, writer="b"))
    again = ShareStateMachine()
    for record in machine.snapshot():
        again.apply(record)
    assert refusal(again, Fence(LeaderEpoch(3), 0), Writing("a", 1)) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(again, Fence(LeaderEpoch(4), 0), Writing("b", 9)) is None


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 5), st.sampled_from(RecordState), st.integers(0, 3)), min_size=1
    )
)
def test_updates_have_the_same_effect_together_as_one_by_one(steps: list[tuple[int, int, RecordState, int]]) -> None:
    start, updates = 0, []
    for first, size, state, moved in steps:
        start += moved
        batch = StateBatch(start + first, start + first + size, state, 1)
        updates.append(Update(Offset(start), len(updates), (batch,)))
    one_by_one, together = begun(), begun()
    fence = Fence(LeaderEpoch(3), 0)
    for update in updates:
        run(one_by_one, one_by_one.write(KEY, update, fence, NOW))
    run(together, together.write(KEY, merged(updates), fence, NOW))
    assert one_by_one.read(KEY) == together.read(KEY)
    assert one_by_one.summary(KEY) == together.summary(KEY)
    assert one_by_one.archiving().reply == together.archiving().reply
