"""All logs of a broker, with the real group commit."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from kompat.clock import ManualClock
from kompat.config.topic import TopicConfig
from kompat.errors import DamagedData, ErrorCode, KafkaError, StorageError
from kompat.log import manager
from kompat.log.commit import GroupCommit
from kompat.log.manager import Logs, LogSettings
from kompat.log.partition import Origin, Partition
from kompat.log.storage.rocks import RocksStore
from kompat.types import LogId
from tests.log.support import NOW, UNCOMMITTED, Disk, batch

TOPIC = UUID(int=1)


class Broker:
    def __init__(self, store: Disk, **settings: int) -> None:
        self.store = store
        self.clock = ManualClock(NOW)
        self.commit = GroupCommit(store, asyncio.get_running_loop(), on_failed=lambda: self.logs.reload_failed())
        self.logs = Logs(store, self.commit, self.clock, LogSettings(**settings))

    def open(self, index: int = 0, topic_id: UUID = TOPIC, **config: object) -> Partition:
        return self.logs.open(LogId(topic_id, index), "topic", index, TopicConfig(**config))  # type: ignore[arg-type]

    async def close(self) -> None:
        await self.logs.close()
        await self.commit.close()


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(Disk())
    yield broker
    await broker.close()


async def test_partitions_are_found_by_name_and_by_id(broker: Broker) -> None:
    partition = broker.open(3)
    assert broker.logs.find("topic", 3) is partition
    assert broker.logs.find_by_id(TOPIC, 3) is partition
    assert broker.logs.find("topic", 4) is None
    assert broker.logs.find_by_id(uuid4(), 3) is None
    assert list(broker.logs.all()) == [partition]


async def test_opening_twice_gives_the_same_partition(broker: Broker) -> None:
    assert broker.open() is broker.open()


async def test_a_dropped_log_is_gone_and_its_space_free(broker: Broker) -> None:
    partition = broker.open()
    await partition.append(memoryview(batch(b"a"))).pending
    assert list(broker.logs.stored()) == [partition.log_id]

    await broker.logs.drop(partition.log_id)

    assert broker.logs.find("topic", 0) is None
    assert list(broker.logs.stored()) == []


async def test_many_logs_are_forgotten_at_once_and_removed_a_few_at_a_time(broker: Broker) -> None:
    partitions = [broker.open(index) for index in range(3 * manager.DROPPED_AT_A_TIME)]
    for partition in partitions:
        partition.append(batch(b"x"))
    await broker.commit.turn()

    broker.logs.drop_soon([partition.log_id for partition in partitions])

    assert list(broker.logs.all()) == []
    assert list(broker.logs.stored()) != []
    await broker.logs.close()
    assert list(broker.logs.stored()) == []


async def test_a_topic_created_again_is_not_dropped_with_its_namesake(broker: Broker) -> None:
    old = broker.open()
    new = broker.open(topic_id=UUID(int=2))
    await broker.logs.drop(old.log_id)
    assert broker.logs.find("topic", 0) is new


async def test_a_log_left_behind_can_be_dropped_unopened(broker: Broker) -> None:
    partition = broker.open()
    await partition.append(memoryview(batch(b"a"))).pending
    later = Broker(broker.store)
    await later.logs.drop(partition.log_id)
    assert list(later.logs.stored()) == []


async def test_logs_come_back_after_a_close(broker: Broker) -> None:
    appended = broker.open().append(memoryview(batch(b"a", b"b")))
    await appended.pending
    await broker.close()
    assert Broker(broker.store).open().log_end_offset == 2


async def test_a_full_disk_fails_the_turn_of_all_and_they_go_on_afterwards(broker: Broker) -> None:
    partitions = [broker.open(i) for i in range(3)]
    await partitions[0].append(memoryview(batch(b"a"))).pending
    broker.store.is_full = True
    appends = [p.append(memoryview(batch(b"lost"))) for p in partitions[:2]]
    for appended in appends:
        with pytest.raises(KafkaError) as raised:
            await appended.pending
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [p.log_end_offset for p in partitions] == [1, 0, 0]

    broker.store.is_full = False
    again = [p.append(memoryview(batch(b"kept"))) for p in partitions]
    await again[0].pending

    assert [p.high_watermark for p in partitions] == [2, 1, 1]


async def test_all_partitions_share_one_cache(broker: Broker) -> None:
    small = Broker(broker.store, cache_bytes=1000)
    one, two = small.open(0), small.open(1)
    for partition in (one, two, two, two):
        await partition.append(memoryview(batch(b"x" * 100))).pending
    assert one.read(0, 1000, UNCOMMITTED) is None  # type: ignore[arg-type]
    assert two.read(2, 1000, UNCOMMITTED) is not None  # type: ignore[arg-type]


async def test_upkeep_removes_what_is_too_old_and_lets_others_work(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "AT_A_TIME", 2)
    partitions = [broker.open(i, retention_ms=1000) for i in range(5)]
    for partition in partitions:
        partition.append(memoryview(batch(b"a")))
    await broker.commit.turn()
    broker.clock.advance(5000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    await broker.logs.maintain(broker.clock.now())
    task.cancel()

    assert turns >= 2
    assert [p.log_start_offset for p in partitions] == [1] * 5


@pytest.mark.parametrize("failure", [StorageError("a bad block"), DamagedData("a bad block")])
async def test_a_partition_that_fails_does_not_keep_retention_from_the_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    partitions = [broker.open(i, retention_ms=1000) for i in range(3)]
    for partition in partitions:
        partition.append(memoryview(batch(b"a")))
    await broker.commit.turn()
    broker.clock.advance(5000)

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(partitions[1].store, "drop_before", fail)
    await broker.logs.maintain(broker.clock.now())
    await broker.commit.turn()

    assert [p.size for p in (partitions[0], partitions[2])] == [0, 0]


async def test_upkeep_forgets_silent_producers(broker: Broker) -> None:
    forgetful = Broker(broker.store, producer_id_expiration_ms=1000)
    partition = forgetful.open()
    partition.append(memoryview(batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)))
    await forgetful.commit.turn()
    forgetful.clock.advance(1000)
    await forgetful.logs.maintain(forgetful.clock.now())
    assert partition.producers.active() == []
    await forgetful.close()
    assert Broker(broker.store).open().producers.active() == []


async def test_upkeep_compacts_what_is_due(broker: Broker) -> None:
    partition = broker.open(compact=True, delete=False, segment_ms=10)
    for i in range(5):
        partition.append(memoryview(batch(b"%d" % i, timestamp=NOW + 100 * i)))
    await broker.commit.turn()
    await broker.logs.clean(broker.clock.now())
    result = await partition.read_stored(0, 1 << 20, UNCOMMITTED)  # type: ignore[arg-type]
    assert (len(result.buffers), result.next_offset) == (2, 5)


async def test_upkeep_runs_by_itself_until_the_close() -> None:
    broker = Broker(Disk(), retention_check_interval_ms=1)
    partition = broker.open(retention_ms=0)
    await partition.append(memoryview(batch(b"a", timestamp=NOW - 1))).pending
    broker.logs.start()
    async with asyncio.timeout(5):
        while partition.log_start_offset == 0:  # noqa: ASYNC110 - upkeep tells nobody when it is done
            await asyncio.sleep(0.001)
    await broker.close()


async def test_a_private_log_keeps_nothing_where_a_machine_that_stops_may_lose_it(tmp_path: Path) -> None:
    """It says which logs exist: without it, the others would be taken for leftovers of deleted topics."""
    store = RocksStore(str(tmp_path))
    commit = GroupCommit(store, asyncio.get_running_loop())
    logs = Logs(store, commit, ManualClock(NOW))
    private = logs.open_private(LogId(TOPIC, 0), "private", 0, TopicConfig())
    await private.append(memoryview(batch(b"x" * 100_000)), origin=Origin.OWNER).pending

    assert list(store.values.logs()) == []
    await logs.close()
    await commit.close()
    store.close()
