"""What consumers far behind will ask for next is read before they do."""

import asyncio
from threading import Event
from uuid import UUID

import pytest

from kompat.clock import ManualClock
from kompat.config.topic import TopicConfig
from kompat.errors import KafkaError
from kompat.log.commit import GroupCommit
from kompat.log.manager import Logs, LogSettings
from kompat.log.partition import Partition
from kompat.log.read_ahead import ENDS, LARGEST, Found, ReadAhead
from kompat.log.storage.memory import MemoryStore
from kompat.protocol.batch import split_batches
from kompat.types import LogId, Offset
from tests.log.support import NOW, UNCOMMITTED, batch

LOG = LogId(UUID(int=7), 0)
OTHER = LogId(UUID(int=8), 0)
FAR = Offset(1 << 40)


def _found(size: int = 100, next_offset: int = 20) -> Found:
    return [b"x" * size], size, Offset(next_offset)


async def _begun(ahead: ReadAhead, offset: int = 10, *, size: int = 100, max_bytes: int = 100) -> None:
    ahead.begin(LOG, Offset(offset), max_bytes, lambda: _found(size, offset + 10))
    await ahead.join(LOG, Offset(offset), 0, FAR)


async def test_what_was_read_is_found_by_whoever_may_have_all_of_it() -> None:
    ahead = ReadAhead()
    await _begun(ahead)
    assert ahead.find(LOG, Offset(10), 100, FAR) == _found()
    assert ahead.find(LOG, Offset(10), 99, FAR) is None
    assert ahead.find(LOG, Offset(10), 100, Offset(19)) is None
    assert ahead.find(LOG, Offset(11), 100, FAR) is None
    assert ahead.find(OTHER, Offset(10), 100, FAR) is None


async def test_who_comes_too_early_waits_for_the_same_read() -> None:
    ahead, may_go_on = ReadAhead(), Event()

    def read() -> Found:
        may_go_on.wait(10)
        return _found()

    ahead.begin(LOG, Offset(10), 100, read)
    assert ahead.find(LOG, Offset(10), 100, FAR) is None
    waiting = [asyncio.ensure_future(ahead.join(LOG, Offset(10), 100, FAR)) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # its client is gone: the other one still gets it
    may_go_on.set()
    assert await waiting[1] == _found()


async def test_a_read_that_fails_leaves_it_to_the_reader() -> None:
    ahead = ReadAhead()

    def broken() -> Found:
        raise OSError("the disk is gone")

    ahead.begin(LOG, Offset(10), 100, broken)
    assert await ahead.join(LOG, Offset(10), 100, FAR) is None
    assert ahead.size == 0


async def test_only_who_goes_on_is_read_ahead_for() -> None:
    ahead = ReadAhead()
    ahead.ended(LOG, Offset(10))
    assert not ahead.is_next(LOG, Offset(11))
    assert not ahead.is_next(OTHER, Offset(10))
    assert ahead.is_next(LOG, Offset(10))
    assert not ahead.is_next(LOG, Offset(10))
    for offset in range(ENDS + 1):
        ahead.ended(LOG, Offset(offset))
    assert not ahead.is_next(LOG, Offset(0))
    assert ahead.is_next(LOG, Offset(1))


async def test_memory_is_bounded_and_what_was_given_out_goes_first() -> None:
    ahead = ReadAhead(limit=250)
    await _begun(ahead, 10)
    await _begun(ahead, 20)
    ahead.begin(LOG, Offset(30), 100, _found)  # nobody has had the others yet
    assert (ahead.size, await ahead.join(LOG, Offset(30), 100, FAR)) == (200, None)
    assert ahead.find(LOG, Offset(20), 100, FAR)
    await _begun(ahead, 30)
    assert ahead.size == 200
    assert ahead.find(LOG, Offset(20), 100, FAR) is None
    assert ahead.find(LOG, Offset(10), 100, FAR)
    assert ahead.find(LOG, Offset(30), 100, FAR)


async def test_a_reader_that_asks_for_very_much_at_a_time_is_not_read_ahead_for() -> None:
    ahead = ReadAhead()
    ahead.begin(LOG, Offset(10), LARGEST + 1, lambda: pytest.fail("it was read"))
    assert ahead.size == 0


async def test_what_nobody_comes_for_does_not_stay() -> None:
    ahead = ReadAhead(keep_seconds=0.01)
    await _begun(ahead)
    await asyncio.sleep(0.02)  # timers go off in the order of their times
    assert ahead.size == 0
    assert ahead.find(LOG, Offset(10), 100, FAR) is None


# -- on a log ----------------------------------------------------------------------------------------------------------
async def _all_from(partition: Partition, start: int, max_bytes: int) -> tuple[list[bytes], int]:
    """What a consumer gets from there to the end, and how many of its requests memory could answer."""
    batches: list[bytes] = []
    offset, at_once = Offset(start), 0
    while offset < partition.high_watermark:
        read = partition.read(offset, max_bytes, UNCOMMITTED)
        at_once += read is not None
        if read is None:
            read = await partition.read_stored(offset, max_bytes, UNCOMMITTED)
        assert read.next_offset > offset
        batches += (bytes(each) for buffer in read.buffers for each in split_batches(memoryview(buffer)))
        offset = read.next_offset
        await asyncio.sleep(0.001)  # it works on them
    return batches, at_once


async def test_a_consumer_far_behind_gets_every_batch_once_and_most_of_them_at_once() -> None:
    store = MemoryStore()
    commit = GroupCommit(store, asyncio.get_running_loop())
    logs = Logs(store, commit, ManualClock(NOW), LogSettings(cache_bytes=0))
    partition = logs.open(LOG, "topic", 0, TopicConfig())
    for number in range(200):
        partition.append(memoryview(batch(b"%d" % number)))
    await commit.turn()

    written = (await partition.read_stored(Offset(0), 1 << 20, UNCOMMITTED)).buffers
    every = [bytes(each) for buffer in written for each in split_batches(memoryview(buffer))]
    size = len(every[0])
    for max_bytes in (size, 3 * size, 10 * size):
        batches, at_once = await _all_from(partition, 0, max_bytes)
        assert batches == every
        assert at_once > 0

    await partition.delete_records(Offset(100))  # what was read ahead of there is nobody's any more
    with pytest.raises(KafkaError, match="99"):
        partition.read(Offset(99), 3 * size, UNCOMMITTED)
    assert (await _all_from(partition, 100, 3 * size))[0] == every[100:]
    await logs.close()
    await commit.close()
