"""`flush.messages` and `flush.ms`: a topic that asks for more than the broker's `kompat.fsync` gives."""

import asyncio
import threading
from uuid import UUID

from kompat.clock import ManualClock
from kompat.config.topic import TopicConfig
from kompat.log.cache import TailCache
from kompat.log.commit import GroupCommit
from kompat.log.memory import MemoryStore
from kompat.log.partition import Partition
from kompat.types import LogId
from tests.log.support import batch

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
        await partition.append(batch(b"x")).pending.wait()
        syncs.append(store.syncs)

    assert syncs == [0, 0, 1, 1, 1, 2]
    await commit.close()


async def test_what_a_topic_wants_on_the_disk_after_a_time_gets_there() -> None:
    store = CountingStore()
    partition, commit = a_partition(store, TopicConfig(flush_ms=1))

    await partition.append(batch(b"x")).pending.wait()

    assert await asyncio.to_thread(store.synced.wait, 10)
    await commit.close()


async def test_a_topic_that_asks_for_nothing_leaves_the_disk_alone() -> None:
    store = CountingStore()
    partition, commit = a_partition(store, TopicConfig())

    await partition.append(batch(b"x")).pending.wait()
    await commit.close()

    assert store.syncs == 0
