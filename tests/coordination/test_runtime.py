import asyncio

import pytest

from kompat.coordination.decision import Decision
from kompat.errors import DamagedData, ErrorCode, KafkaError, UnknownRecord
from kompat.log.partition import Origin
from kompat.protocol.records import Record, build_batch
from tests.coordination.support import Added, Audience, Disk, Ledger, Node, runtime_on


async def test_a_reply_comes_when_its_records_are_on_the_disk() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk))
    await runtime.load()

    asked = asyncio.ensure_future(runtime.run(lambda ledger: ledger.add("a", 2)))
    await asyncio.sleep(0)
    assert runtime.machine.sums == {"a": 2}  # applied at append
    assert not asked.done()
    assert await asked == 2
    assert disk.flushes == 1


async def test_commands_see_each_other_before_they_are_committed_and_share_a_flush() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk))
    await runtime.load()

    totals = await asyncio.gather(*(runtime.run(lambda ledger: ledger.add("a", 1)) for _ in range(10)))

    assert totals == list(range(1, 11))
    assert disk.flushes == 1


async def test_a_question_does_not_show_what_is_not_committed() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk))
    await runtime.load()
    order: list[str] = []

    async def ask(name: str, command: object) -> None:
        await runtime.run(command)  # type: ignore[arg-type]
        order.append(f"{name} after {disk.flushes} flushes")

    await asyncio.gather(ask("add", lambda ledger: ledger.add("a", 1)), ask("look", lambda ledger: ledger.look("a")))
    assert order == ["add after 1 flushes", "look after 1 flushes"]


async def test_a_refusal_waits_for_what_it_rests_on() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk))
    await runtime.run(lambda ledger: ledger.add("a", 5))
    disk.is_full = True

    spent, refused = await asyncio.gather(
        runtime.run(lambda ledger: ledger.add("a", -5)),
        runtime.run(lambda ledger: ledger.add("a", -1)),
        return_exceptions=True,
    )

    # The second was refused because of the first, which never happened: so it hears of the disk, not of a debt.
    for outcome in (spent, refused):
        assert isinstance(outcome, KafkaError)
        assert outcome.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.is_full = False
    assert await runtime.run(lambda ledger: ledger.add("a", -1)) == 4


async def test_a_refusal_alone_is_the_callers() -> None:
    runtime = runtime_on(Node(Disk()))

    with pytest.raises(KafkaError) as raised:
        await runtime.run(lambda ledger: ledger.add("a", -1))

    assert raised.value.code is ErrorCode.POLICY_VIOLATION


async def test_callers_are_told_of_a_failing_log_in_the_words_of_their_protocol() -> None:
    disk = Disk()
    failures = {ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR}
    runtime = runtime_on(Node(disk), failures=failures)
    disk.is_full = True

    with pytest.raises(KafkaError) as raised:
        await runtime.run(lambda ledger: ledger.add("a", 1))

    assert raised.value.code is ErrorCode.NOT_COORDINATOR


async def test_after_a_failed_commit_the_machine_is_what_the_log_says() -> None:
    disk, audience = Disk(), Audience()
    runtime = runtime_on(Node(disk), audience=audience)
    await runtime.run(lambda ledger: ledger.add("a", 1))

    disk.is_full = True
    with pytest.raises(KafkaError):
        await runtime.run(lambda ledger: ledger.add("a", 10))
    disk.is_full = False

    assert await runtime.run(lambda ledger: ledger.look("a")) == 1
    assert await runtime.run(lambda ledger: ledger.add("a", 100)) == 101
    assert audience.loads == 2
    assert audience.heard == [Added("a", 100)]


async def test_a_failure_behind_a_write_that_lasts_waits_for_that_write() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk, fsync="always"))
    await runtime.load()
    disk.is_fast.clear()
    written = asyncio.ensure_future(runtime.run(lambda ledger: ledger.add("a", 1)))
    while not disk.flushes:  # noqa: ASYNC110 - the store has nobody to tell
        await asyncio.sleep(0)
    disk.is_full = True
    with pytest.raises(KafkaError):
        await runtime.run(lambda ledger: ledger.add("a", 10))
    disk.is_full = False

    asked = asyncio.ensure_future(runtime.run(lambda ledger: ledger.look("a")))
    await asyncio.sleep(0.02)
    assert not written.done()
    assert not asked.done()
    disk.is_fast.set()

    assert await written == 1
    assert await asked == 1


async def test_what_was_written_but_could_not_be_forced_counts_once_it_is() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk, fsync="always"))
    await runtime.load()
    disk.is_broken = True
    for _ in range(2):
        with pytest.raises(KafkaError):
            await runtime.run(lambda ledger: ledger.add("a", 1))
    disk.is_broken = False

    # It is in the log, and a restart would find it there.
    assert await runtime.run(lambda ledger: ledger.look("a")) == 1


async def test_the_listener_hears_of_commits_before_the_caller() -> None:
    audience = Audience()
    runtime = runtime_on(Node(Disk()), audience=audience)

    await runtime.run(lambda ledger: ledger.add("a", 1))

    assert audience.heard == [Added("a", 1)]
    assert runtime.committed_offset == 1


async def test_a_restart_continues_where_the_log_ends() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk))
    for amount in range(5):
        await runtime.run(lambda ledger, amount=amount: ledger.add("a", amount))  # type: ignore[misc]

    again = runtime_on(Node(disk))
    await again.load()

    assert again.machine.sums == runtime.machine.sums
    assert again.committed_offset == runtime.committed_offset == 5


async def test_a_decision_of_many_records_is_kept_whole_or_not_at_all() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk))
    records = [Added(str(number), 1) for number in range(1000)]
    asked = asyncio.ensure_future(runtime.run(lambda _: Decision(records, None)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    disk.crash()

    again = runtime_on(Node(disk))
    await again.load()

    assert len(again.machine.sums) in (0, 1000)
    await asyncio.gather(asked, return_exceptions=True)


async def test_the_log_before_a_snapshot_is_let_go() -> None:
    disk = Disk()
    node = Node(disk)
    runtime = runtime_on(node, snapshot_after=2000)
    for _ in range(100):
        await runtime.run(lambda ledger: ledger.add("a", 1))

    log = runtime.partition
    assert 0 < log.log_start_offset < log.log_end_offset == 100

    again = runtime_on(Node(disk))
    await again.load()
    assert again.machine.sums == {"a": 100}


async def test_snapshots_become_rarer_as_they_grow() -> None:
    node = Node(Disk())
    runtime = runtime_on(node, snapshot_after=100)
    keys = [f"{number}-{number * 7919 % 1000003}" for number in range(500)]
    for key in keys:
        await runtime.run(lambda ledger, key=key: ledger.add(key, 1))  # type: ignore[misc]

    assert runtime._snapshot_size > 1000
    assert runtime._since_snapshot <= runtime._snapshot_size + 200


async def test_a_snapshot_that_the_disk_refuses_harms_nothing() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk), snapshot_after=100)
    for _ in range(2):
        await runtime.run(lambda ledger: ledger.add("a", 1))
    disk.is_full = True
    asked = await asyncio.gather(runtime.run(lambda ledger: ledger.look("a")), return_exceptions=True)
    disk.is_full = False

    assert asked == [2]
    assert await runtime.run(lambda ledger: ledger.add("a", 1)) == 3
    again = runtime_on(Node(disk))
    await again.load()
    assert again.machine.sums == {"a": 3}


async def test_commands_during_a_snapshot_are_not_lost() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk, fsync="always"), snapshot_after=300)
    await asyncio.gather(*(runtime.run(lambda ledger: ledger.add("a", 1)) for _ in range(200)))

    again = runtime_on(Node(disk))
    await again.load()
    assert again.machine.sums == {"a": 200}
    await runtime.close()


async def test_a_machine_without_a_store_for_snapshots_keeps_its_log() -> None:
    runtime = runtime_on(Node(Disk()), snapshot_after=1, has_snapshots=False)
    for _ in range(20):
        await runtime.run(lambda ledger: ledger.add("a", 1))

    assert runtime.partition.log_start_offset == 0


async def test_a_damaged_snapshot_is_reported_not_skipped() -> None:
    disk = Disk()
    node = Node(disk)
    runtime = runtime_on(node, snapshot_after=100)
    for _ in range(5):
        await runtime.run(lambda ledger: ledger.add("a", 1))
    store = runtime.partition.store
    stored = bytearray(store.state(b"machine/snapshot") or b"")
    stored[40] ^= 1
    store.put_state(b"machine/snapshot", bytes(stored))
    await node.commit.turn()

    with pytest.raises(DamagedData):
        await runtime_on(Node(disk)).load()


async def test_a_long_replay_lets_others_run() -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk))
    for start in range(0, 10_000, 500):
        records = [Added(str(number), 1) for number in range(start, start + 500)]
        await runtime.run(lambda _, records=records: Decision(records, None))  # type: ignore[misc]
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(others())
    again = runtime_on(Node(disk))
    await again.load()
    other.cancel()

    assert len(again.machine.sums) == 10_000
    assert turns > 1


async def test_many_who_ask_while_it_loads_wait_for_one_load() -> None:
    disk, audience = Disk(), Audience()
    await runtime_on(Node(disk)).run(lambda ledger: ledger.add("a", 1))

    runtime = runtime_on(Node(disk), audience=audience)
    found = await asyncio.gather(*(runtime.run(lambda ledger: ledger.look("a")) for _ in range(5)))

    assert found == [1] * 5
    assert audience.loads == 1


async def test_a_caller_that_goes_away_does_not_stop_the_load() -> None:
    disk = Disk()
    await runtime_on(Node(disk)).run(lambda ledger: ledger.add("a", 1))
    runtime = runtime_on(Node(disk))
    impatient = asyncio.ensure_future(runtime.run(lambda ledger: ledger.look("a")))
    await asyncio.sleep(0)
    impatient.cancel()

    assert await runtime.run(lambda ledger: ledger.look("a")) == 1
    assert isinstance(runtime.machine, Ledger)


async def test_records_that_cannot_be_read_or_applied_are_skipped_counted_once_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk()
    runtime = runtime_on(Node(disk))
    await runtime.run(lambda ledger: ledger.add("a", 1))
    forged = [
        Record(0, 1, b"a", b"no number"),
        Record(1, 1, b"a", b"2"),
        Record(2, 1, b"a", b'"text"'),
        Record(3, 1, b"\xff", b"1"),
    ]
    await runtime.partition.append(memoryview(build_batch(forged)), origin=Origin.OWNER).pending

    again = runtime_on(Node(disk))
    for _ in range(2):  # a log is read again when the lead changes
        again.lead()
        assert await again.run(lambda ledger: ledger.look("a")) == 3

    assert await again.run(lambda ledger: ledger.add("a", 1)) == 4
    assert again.partition.meter.records_unreadable == 3
    assert len([each for each in caplog.records if "cannot be read" in each.message]) == 1


async def test_a_record_of_a_newer_version_that_must_not_be_skipped_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk()
    await runtime_on(Node(disk)).run(lambda ledger: ledger.add("a", 1))

    def refuse(*_: object) -> None:
        raise UnknownRecord("written by a newer version")

    monkeypatch.setattr("tests.coordination.support.LedgerCodec.decode", refuse)
    with pytest.raises(UnknownRecord):
        await runtime_on(Node(disk)).load()
