"""Leading and following: a machine runs where its partition is led, and its records are heard of everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kompat.config.topic import TopicConfig
from kompat.coordination import following as module
from kompat.coordination import reading
from kompat.coordination.following import Following
from kompat.errors import ErrorCode, KafkaError
from kompat.types import Offset
from tests.coordination.support import LOG_ID, Added, Disk, Ledger, LedgerCodec, Node, TimedLedger, runtime_on


class View:
    def __init__(self) -> None:
        self.sums: dict[str, int] = {}
        self.rebuilds = 0

    def rebuilt(self, machine: Ledger) -> None:
        self.sums = dict(machine.sums)
        self.rebuilds += 1

    def committed(self, records: Sequence[Added]) -> None:
        for record in records:
            self.sums[record.key] = self.sums.get(record.key, 0) + record.amount


def following(node: Node, view: View) -> Following[Ledger, Added]:
    log = next(each for each in node.logs._private if each.log_id == LOG_ID)
    return Following(Ledger, LedgerCodec(), log, view)


async def test_a_broker_that_does_not_lead_refuses_commands() -> None:
    runtime = runtime_on(Node(Disk()), failures={ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR})
    await runtime.run(lambda ledger: ledger.add("a", 1))
    runtime.resign()

    with pytest.raises(KafkaError) as refused:
        await runtime.run(lambda ledger: ledger.add("a", 1))
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert runtime.run_now(lambda ledger: ledger.look("a")) is None
    assert runtime.machine.sums == {}


async def test_a_broker_that_gains_the_lead_goes_on_where_the_log_stands() -> None:
    runtime = runtime_on(Node(Disk()))
    await runtime.run(lambda ledger: ledger.add("a", 1))
    runtime.resign()
    runtime.lead()

    assert await runtime.run(lambda ledger: ledger.add("a", 1)) == 2


async def test_a_lead_lost_while_the_machine_is_built_is_told_to_those_who_wait() -> None:
    disk = Disk()
    first = Node(disk)
    await runtime_on(first).run(lambda ledger: ledger.add("a", 1))
    await first.close()
    runtime = runtime_on(Node(disk))
    runtime.lead()
    asked = asyncio.ensure_future(runtime.run(lambda ledger: ledger.add("a", 1)))
    await asyncio.sleep(0)
    assert not asked.done()  # the log is read in a thread
    runtime.resign()

    with pytest.raises(KafkaError) as refused:
        await asked
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_deadlines_rest_while_another_leads() -> None:
    node = Node(Disk())
    runtime = runtime_on(node, TimedLedger)
    await runtime.run(lambda ledger: ledger.remind(node.clock.now()))  # type: ignore[attr-defined]
    runtime.resign()
    await asyncio.sleep(0.02)

    assert runtime.partition.log_end_offset == 0


async def test_a_follower_hears_of_all_that_is_committed_and_of_nothing_else() -> None:
    disk = Disk()
    node = Node(disk)
    runtime = runtime_on(node)
    await runtime.run(lambda ledger: ledger.add("a", 1))
    view = View()
    follower = following(node, view)
    await follower.start()
    assert view.sums == {"a": 1}

    asked = asyncio.ensure_future(runtime.run(lambda ledger: ledger.add("a", 2)))
    await asyncio.sleep(0)
    assert view.sums == {"a": 1}
    await asked
    assert view.sums == {"a": 3}  # at once: whoever was answered finds it
    assert (view.rebuilds, follower.position) == (1, 2)

    disk.is_full = True
    with pytest.raises(KafkaError):
        await runtime.run(lambda ledger: ledger.add("a", 4))
    assert view.sums == {"a": 3}
    await follower.close()


async def test_a_follower_that_missed_what_a_snapshot_replaced_begins_with_that() -> None:
    node = Node(Disk())
    runtime = runtime_on(node, snapshot_after=200)
    view = View()
    follower = following(node, view)
    await follower.start()
    runtime.partition.unwatch(follower._advanced)
    for _ in range(20):
        await runtime.run(lambda ledger: ledger.add("a", 1))
    assert runtime.partition.log_start_offset > 0

    runtime.partition.watch(follower._advanced)
    await runtime.run(lambda ledger: ledger.add("a", 1))

    assert await follower.reach(Offset(21), 5)
    assert (view.sums, view.rebuilds) == ({"a": 21}, 2)
    await follower.close()


@pytest.mark.parametrize("is_in_memory", [True, False])
async def test_a_follower_comes_over_a_bug_by_reading_all_anew(
    is_in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY", 0.01)
    if not is_in_memory:
        monkeypatch.setattr(reading, "read_memory", lambda *_: None)
    node = Node(Disk())
    runtime = runtime_on(node)
    view = View()
    follower = following(node, view)
    await follower.start()
    bugs = [RuntimeError("a bug"), RuntimeError("once more")]
    committed, rebuilt = view.committed, view.rebuilt

    def failing(records: Sequence[Added]) -> None:
        committed(records)
        if bugs:
            raise bugs.pop()

    def failing_too(machine: Ledger) -> None:
        rebuilt(machine)
        if bugs:
            raise bugs.pop()

    monkeypatch.setattr(view, "committed", failing)
    monkeypatch.setattr(view, "rebuilt", failing_too)
    for _ in range(3):
        await runtime.run(lambda ledger: ledger.add("a", 1))

    async with asyncio.timeout(10):
        while view.rebuilds < 3 or follower._is_broken:  # noqa: ASYNC110 - it has nobody to tell
            await asyncio.sleep(0.01)
    await runtime.run(lambda ledger: ledger.add("a", 1))
    assert await follower.reach(Offset(4), 5)
    assert view.sums == {"a": 4}
    await follower.close()


async def test_whoever_waits_for_an_offset_hears_when_it_is_there_or_that_time_is_up() -> None:
    node = Node(Disk())
    runtime = runtime_on(node)
    follower = following(node, View())
    await follower.start()

    waiting = asyncio.ensure_future(follower.reach(Offset(1), 5))
    assert not await follower.reach(Offset(1), 0.01)
    await runtime.run(lambda ledger: ledger.add("a", 1))
    assert await waiting
    await follower.close()


async def test_what_is_not_in_memory_is_read_from_the_store() -> None:
    disk = Disk()
    first = Node(disk)
    runtime = runtime_on(first)
    for _ in range(5):
        await runtime.run(lambda ledger: ledger.add("a", 1))
    await first.close()

    again = Node(disk)
    again.logs.open_private(LOG_ID, "ledger", 0, TopicConfig())
    view = View()
    follower = following(again, view)
    await follower.start()
    assert view.sums == {"a": 5}
    await follower.close()
