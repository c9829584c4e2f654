"""Group commit: who is told what, and when."""

import asyncio
import threading

import pytest

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.log.commit import GroupCommit
from kompat.log.storage.memory import MemoryStore
from kompat.types import Offset
from tests.log.storage.batches import LOG, a_batch, an_entry


class RecordingStore(MemoryStore):
    """A store that counts, refuses and waits as told."""

    def __init__(self) -> None:
        super().__init__()
        self.flushes = 0
        self.syncs = 0
        self.refuses: Exception | None = None
        self.sync_refuses: Exception | None = None
        self.synced = threading.Event()
        self.may_sync = threading.Event()
        self.may_sync.set()

    def flush(self) -> None:
        self.flushes += 1
        if self.refuses is not None:
            raise self.refuses
        super().flush()

    def sync(self) -> None:
        self.may_sync.wait(10)
        self.syncs += 1
        self.synced.set()
        if self.sync_refuses is not None:
            raise self.sync_refuses


async def test_everything_of_one_turn_is_flushed_together() -> None:
    store = RecordingStore()
    commit = GroupCommit(store, asyncio.get_running_loop())
    first = commit.turn()
    store.open(LOG).append(an_entry(1, 0), a_batch(0), Offset(0))
    second = commit.turn()

    assert first is second
    assert not first.is_done
    await first

    assert store.flushes == 1
    assert store.open(LOG).last_entry() == an_entry(1, 0)
    await commit.close()


async def test_the_next_turn_has_its_own_promise() -> None:
    commit = GroupCommit(RecordingStore(), asyncio.get_running_loop())
    first = commit.turn()
    await first

    assert commit.turn() is not first
    await commit.close()


async def test_callbacks_run_in_the_order_in_which_they_were_added() -> None:
    commit = GroupCommit(RecordingStore(), asyncio.get_running_loop())
    order: list[int] = []
    turn = commit.turn()
    for number in range(3):
        turn.add_done_callback(lambda _, number=number: order.append(number))  # type: ignore[misc]
    await turn

    assert order == [0, 1, 2]
    turn.add_done_callback(lambda _: order.append(3))
    assert order == [0, 1, 2, 3]
    await commit.close()


async def test_a_refused_turn_is_answered_storage_error_after_partitions_were_told() -> None:
    store = RecordingStore()
    store.refuses = StorageError("no room")
    told: list[str] = []
    commit = GroupCommit(store, asyncio.get_running_loop(), on_failed=lambda: told.append("partitions"))
    turn = commit.turn()
    turn.add_done_callback(lambda _: told.append("client"))

    with pytest.raises(KafkaError) as raised:
        await turn

    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert told == ["partitions", "client"]
    store.refuses = None
    await commit.turn()
    await commit.close()


async def test_a_bug_in_the_store_leaves_nobody_waiting() -> None:
    store = RecordingStore()
    store.refuses = ValueError("bug")
    loop = asyncio.get_running_loop()
    unhandled: list[BaseException] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context["exception"]))
    commit = GroupCommit(store, loop)

    with pytest.raises(KafkaError):
        await commit.turn()

    assert unhandled == [store.refuses]
    await commit.close()


async def test_a_callback_that_fails_does_not_starve_the_others() -> None:
    loop = asyncio.get_running_loop()
    unhandled: list[BaseException] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context["exception"]))
    commit = GroupCommit(RecordingStore(), loop)
    turn = commit.turn()
    turn.add_done_callback(lambda _: 1 / 0)  # type: ignore[arg-type,return-value]

    await turn

    assert [type(failure) for failure in unhandled] == [ZeroDivisionError]
    await commit.close()


async def test_with_fsync_always_nobody_is_told_before_the_disk_has_it() -> None:
    store = RecordingStore()
    store.may_sync.clear()
    commit = GroupCommit(store, asyncio.get_running_loop(), fsync="always")
    turn = commit.turn()
    await asyncio.sleep(0.01)

    assert (store.flushes, turn.is_done) == (1, False)
    store.may_sync.set()
    await turn
    assert store.syncs == 1
    await commit.close()


async def test_turns_that_end_during_a_sync_share_the_next_one() -> None:
    store = RecordingStore()
    store.may_sync.clear()
    commit = GroupCommit(store, asyncio.get_running_loop(), fsync="always")
    turns: list[Promise[None]] = []
    for _ in range(5):
        turns.append(commit.turn())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    store.may_sync.set()
    for turn in turns:
        await turn

    assert (store.flushes, store.syncs) == (5, 2)
    await commit.close()


async def test_a_failed_sync_fails_the_turns_that_waited_for_it() -> None:
    store = RecordingStore()
    store.sync_refuses = StorageError("bad disk")
    commit = GroupCommit(store, asyncio.get_running_loop(), fsync="always")

    with pytest.raises(KafkaError):
        await commit.turn()

    store.sync_refuses = None
    await commit.turn()
    await commit.close()


async def test_with_fsync_interval_the_disk_follows() -> None:
    store = RecordingStore()
    commit = GroupCommit(store, asyncio.get_running_loop(), fsync="interval", interval_ms=10)
    for _ in range(3):
        await commit.turn()
    assert store.syncs == 0
    assert await asyncio.to_thread(store.synced.wait, 5)

    assert store.syncs == 1
    await commit.close()


async def test_closing_writes_and_syncs_what_is_under_way() -> None:
    store = RecordingStore()
    commit = GroupCommit(store, asyncio.get_running_loop(), fsync="interval", interval_ms=100_000)
    turn = commit.turn()

    await commit.close()

    assert turn.is_done
    assert (store.flushes, store.syncs) == (1, 1)


async def test_a_turn_that_has_to_be_on_the_disk_is_waited_for_whatever_the_setting() -> None:
    store = RecordingStore()
    commit = GroupCommit(store, asyncio.get_running_loop(), fsync="never")
    turn = commit.turn()
    commit.require_sync()
    told: list[int] = []
    turn.add_done_callback(lambda _: told.append(store.syncs))

    await turn

    assert told == [1]
    await commit.close()


async def test_turns_are_committed_in_their_order_where_only_the_first_has_to_be_on_the_disk() -> None:
    store = RecordingStore()
    commit = GroupCommit(store, asyncio.get_running_loop(), fsync="never")
    ended: list[str] = []
    first = commit.turn()
    commit.require_sync()
    first.add_done_callback(lambda _: ended.append("first"))
    await asyncio.sleep(0)
    second = commit.turn()
    second.add_done_callback(lambda _: ended.append("second"))

    await second

    assert ended == ["first", "second"]
    await commit.close()


async def test_the_disk_is_asked_within_the_shortest_time_that_anybody_wants() -> None:
    store = RecordingStore()
    commit = GroupCommit(store, asyncio.get_running_loop(), fsync="never")
    await commit.turn()
    commit.sync_within(3600)
    commit.sync_within(0.001)

    assert await asyncio.to_thread(store.synced.wait, 10)

    await commit.close()
