"""A machine whose partition is led elsewhere, and here again."""

from __future__ import annotations

import asyncio

import pytest

from kompat.common.promise import Promise
from kompat.coordination import reading
from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition, ReadResult
from kompat.types import LeaderEpoch, Millis, Offset
from tests.coordination.support import Added, Audience, Disk, Ledger, Node, TimedLedger, runtime_on

WORDS = {ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR}


async def test_who_does_not_lead_refuses_commands_and_knows_nothing_until_it_does() -> None:
    node, audience = Node(Disk()), Audience()
    runtime = runtime_on(node, audience=audience, failures=WORDS)
    await runtime.run(lambda m: m.add("a", 1))
    runtime.resign()

    for refused in (runtime.run(lambda m: m.look("a")), runtime.load()):
        with pytest.raises(KafkaError) as refusal:
            await refused
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    assert runtime.machine.sums == {}

    await runtime.lead()
    assert await runtime.run(lambda m: m.look("a")) == 1
    assert audience.loads == 2
    await node.close()


async def test_who_has_lost_the_lead_answers_nobody_even_before_it_is_told() -> None:
    """The partition is in another broker's epoch already; the news is still on its way."""
    node, audience = Node(Disk()), Audience()
    runtime = runtime_on(node, audience=audience, failures=WORDS)
    await runtime.run(lambda m: m.add("a", 1))
    runtime.partition.leader_epoch = LeaderEpoch(runtime.epoch + 1)

    assert not runtime.is_leading
    assert runtime.run_now(lambda m: m.look("a")) is None
    for refused in (runtime.run(lambda m: m.look("a")), runtime.run(lambda m: m.add("a", 1)), runtime.load()):
        with pytest.raises(KafkaError) as refusal:
            await refused
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR

    await runtime.lead()  # it was this broker's after all
    assert await runtime.run(lambda m: m.look("a")) == 1
    await node.close()


async def test_a_command_under_way_when_the_lead_is_lost_is_found_by_whoever_leads_next() -> None:
    node, audience = Node(Disk()), Audience()
    runtime = runtime_on(node, audience=audience)
    await runtime.load()
    command = asyncio.ensure_future(runtime.run(lambda m: m.add("a", 1)))
    await asyncio.sleep(0)  # it is appended
    runtime.resign()
    await runtime.lead()

    assert await command == 1
    assert runtime.machine.sums == {"a": 1}
    assert audience.heard == []  # it came with the load, and is not told twice
    await node.close()


async def test_those_who_wait_for_a_load_wait_for_the_next_one_if_the_lead_comes_back() -> None:
    node = Node(Disk())
    runtime = runtime_on(node)
    await runtime.run(lambda m: m.add("a", 1))
    runtime.lead()
    waiting = asyncio.ensure_future(runtime.run(lambda m: m.look("a")))
    asyncio.get_running_loop().call_soon(runtime.lead)  # once more, before the first load has begun

    assert await waiting == 1
    await node.close()


async def test_work_is_taken_up_though_the_first_load_fails_and_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    node, audience = Node(Disk()), Audience()
    runtime = runtime_on(node, TimedLedger, audience=audience)
    await runtime.run(lambda m: m.add("a", 1))
    read, failures = reading.read, [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)]

    async def failing(partition: Partition, position: Offset) -> ReadResult:
        if failures:
            raise failures.pop()
        return await read(partition, position)

    monkeypatch.setattr(reading, "read", failing)
    with pytest.raises(KafkaError):
        await runtime.lead()

    async with asyncio.timeout(10):
        while audience.loads < 2:  # noqa: ASYNC110 - it has nobody to tell
            await asyncio.sleep(0.01)
    assert runtime.machine.sums == {"a": 1}
    await runtime.close()
    await node.close()


@pytest.mark.timeout(20)
async def test_a_load_that_gets_no_further_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's end may be about to be cut: nobody can read it, and it is only gone after the next write."""
    node = Node(Disk())
    runtime = runtime_on(node)
    await runtime.run(lambda m: m.add("a", 1))
    partition = runtime.partition
    end = partition.log_end_offset
    monkeypatch.setattr(Partition, "when_committed", lambda _: Promise.resolved(None))
    partition.state.log_end_offset = Offset(end + 1)
    loading = runtime.lead()
    await asyncio.sleep(0.05)
    assert not loading.done()
    partition.state.log_end_offset = end

    await loading
    assert runtime.machine.sums == {"a": 1}
    await node.close()


async def test_deadlines_of_a_machine_that_has_resigned_do_not_come() -> None:
    node = Node(Disk())
    runtime = runtime_on(node, TimedLedger)
    soon = Millis(node.clock.now() + 20)
    await runtime.run(lambda m: _remind(m, soon))
    runtime.resign()
    end = runtime.partition.log_end_offset
    await asyncio.sleep(0.1)

    assert runtime.partition.log_end_offset == end
    await runtime.close()
    await node.close()


def _remind(machine: Ledger, at: Millis) -> Decision[Added, None]:
    assert isinstance(machine, TimedLedger)
    return machine.remind(at)
