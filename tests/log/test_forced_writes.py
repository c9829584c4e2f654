"""`flush.messages` and `flush.ms`: a topic that asks for more than the broker's `kompat.fsync` gives."""

import asyncio
import threading
from uuid import UUID

import pytest

from kompat.clock import ManualClock
from kompat.config.topic import TopicConfig
from kompat.errors import StorageError
from kompat.log.cache import TailCache
from kompat.log.commit import Fsync, GroupCommit
from kompat.log.manager import Logs
from kompat.log.partition import Appended, Isolation, Partition
from kompat.log.storage.memory import MemoryStore
from kompat.types import LogId, Offset
from tests.log.support import batch, records_of

LOG = LogId(UUID(int=9), 0)


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.synced = threading.Event()

    def sync(self) -> None:
        self.syncs += 1
        self.synced.set()


def a_partition(store: CountingStore, config: TopicConfig) -> tuple[Partition, GroupCommit]:
    commit = GroupCommit(store, asyncio.get_running_loop(), fsync="never")
    opened = store.open(LOG)
    cache = TailCache(1 << 20)
    return Partition(LOG, "t", 0, store=opened, commit=commit, config=config, clock=ManualClock(), cache=cache), commit


async def test_every_so_many_messages_are_on_the_disk_before_they_are_acknowledged() -> None:
    store = CountingStore()
    partition, commit = a_partition(store, TopicConfig(flush_messages=3))
    syncs = []
    for _ in range(6):
        await partition.append(batch(b"x")).pending
        syncs.append(store.syncs)

    assert syncs == [0, 0, 1, 1, 1, 2]
    await commit.close()


async def test_what_a_topic_wants_on_the_disk_after_a_time_gets_there() -> None:
    store = CountingStore()
    partition, commit = a_partition(store, TopicConfig(flush_ms=1))

    await partition.append(batch(b"x")).pending

    assert await asyncio.to_thread(store.synced.wait, 10)
    await commit.close()


async def test_a_topic_that_asks_for_nothing_leaves_the_disk_alone() -> None:
    store = CountingStore()
    partition, commit = a_partition(store, TopicConfig())

    await partition.append(batch(b"x")).pending
    await commit.close()

    assert store.syncs == 0


class FailingOnce(CountingStore):
    """Takes writes, and fails the first time it has to force them."""

    def __init__(self) -> None:
        super().__init__()
        self.may_fail = threading.Event()

    def sync(self) -> None:
        super().sync()
        if self.syncs == 1:
            self.may_fail.wait(10)
            raise StorageError("the disk failed")


@pytest.mark.parametrize("fsync", ["interval", "always"])
async def test_what_is_staged_when_a_forced_write_fails_keeps_its_offsets(fsync: Fsync) -> None:
    store, loop = FailingOnce(), asyncio.get_running_loop()
    commit = GroupCommit(store, loop, fsync=fsync, interval_ms=1, on_failed=lambda: logs.reload_failed())
    logs = Logs(store, commit, ManualClock())
    partition = logs.open(LOG, "t", 0, TopicConfig())
    partition.append(batch(b"first"))
    assert await asyncio.to_thread(store.synced.wait, 10)

    staged: list[Appended] = []
    store.may_fail.set()
    commit._executor.submit(int).result(10)  # by the same thread: the sync has failed, the loop is about to hear of it
    loop.call_soon(lambda: staged.append(partition.append(batch(b"second"))))  # before it does, and not yet written
    await asyncio.sleep(0)
    await staged[0].pending
    third = partition.append(batch(b"third"))
    await third.pending

    assert (staged[0].base_offset, third.base_offset) == (1, 2)
    found = await partition.read_stored(Offset(0), 1 << 20, Isolation.READ_UNCOMMITTED)
    assert [record.value for record in records_of(found)] == [b"first", b"second", b"third"]
    await commit.close()
