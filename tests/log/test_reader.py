"""Reads from the cache and from the store: whole batches, within limits, up to what is readable."""

from __future__ import annotations

import pytest

from kompat.errors import DamagedOffsets, ErrorCode, KafkaError
from kompat.protocol.records import iterate
from kompat.types import Offset
from tests.log.support import UNCOMMITTED, Log, batch, delete, records_of, run
from tests.simulator.disk import SimPartition


@pytest.mark.parametrize("source", ["read", "read_stored"])
class TestReads:
    def test_begin_with_the_batch_that_holds_the_offset(self, source: str) -> None:
        log = Log()
        log.append(b"a", b"b", b"c")
        log.append(b"d")
        assert [r.offset for r in records_of(getattr(log, source)(1))] == [0, 1, 2, 3]
        assert [r.offset for r in records_of(getattr(log, source)(3))] == [3]

    def test_give_whole_batches_within_the_limit(self, source: str) -> None:
        log = Log()
        size = len(batch(b"a"))
        for _ in range(4):
            log.append(b"a")
        for limit in (2 * size, 3 * size - 1):
            result = getattr(log, source)(1, limit)
            assert (result.size, result.next_offset) == (2 * size, 3)

    def test_give_one_batch_however_large_unless_told_not_to(self, source: str) -> None:
        log = Log()
        log.append(b"a" * 1000)
        assert getattr(log, source)(0, 10).size > 1000
        assert getattr(log, source)(0, 10, minimum_one=False).buffers == []

    def test_at_the_end_give_nothing(self, source: str) -> None:
        log = Log()
        log.append(b"a")
        result = getattr(log, source)(1)
        assert (result.buffers, result.size, result.next_offset, result.high_watermark) == ([], 0, 1, 1)

    @pytest.mark.parametrize("offset", [-1, 2, 100])
    def test_outside_of_the_log_are_refused(self, source: str, offset: int) -> None:
        log = Log()
        log.append(b"a")
        with pytest.raises(KafkaError) as raised:
            getattr(log, source)(offset)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_before_the_logs_start_are_refused(self, source: str) -> None:
        log = Log()
        log.append(b"a", b"b")
        delete(log, 1)
        with pytest.raises(KafkaError) as raised:
            getattr(log, source)(0)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_has_left_the_cache_comes_from_the_store() -> None:
    log = Log(cache=2000)
    for i in range(20):
        log.append(b"%d" % i)
    assert log.partition.read(Offset(0), 100, UNCOMMITTED) is None
    assert log.partition.read(Offset(19), 100, UNCOMMITTED) is not None
    assert log.values() == [b"%d" % i for i in range(20)]


def test_many_small_batches_leave_as_one_buffer() -> None:
    log = Log()
    for _ in range(100):
        log.append(b"a")
    assert len(log.read().buffers) == 1
    assert len(records_of(log.read())) == 100


def test_available_counts_whole_batches_up_to_what_is_readable() -> None:
    log = Log()
    size = len(batch(b"a", b"a"))
    for _ in range(3):
        log.append(b"a", b"a")
    log.stage(batch(b"a", b"a"))
    available = log.partition.available
    assert [available(Offset(o), UNCOMMITTED) for o in (0, 1, 2, 5, 6, 7)] == [3 * size, 3 * size, 2 * size, size, 0, 0]


def test_available_before_the_cache_is_at_least_something() -> None:
    log = Log(cache=0)
    log.append(b"a")
    assert log.partition.available(Offset(0), UNCOMMITTED) > 0


def test_readers_of_the_brokers_own_pass_over_what_is_damaged_and_others_are_told() -> None:
    log = Log(cache=0)
    for value in (b"a", b"b", b"c", b"d"):
        log.append(value)
    store = log.partition.store
    assert isinstance(store, SimPartition)
    for base in (1, 3):
        store.damage(base)

    with pytest.raises(DamagedOffsets, match="offsets 1 to 1 are damaged") as raised:
        run(log.partition.read_stored(Offset(1), 1 << 20, UNCOMMITTED))
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE

    def values(start: int) -> tuple[list[bytes | None], int]:
        read = run(log.partition.read_around(Offset(start), 1 << 20, UNCOMMITTED))
        return [record.value for buffer in read.buffers for record in iterate(buffer)], read.next_offset

    assert values(0) == ([b"a"], 1)
    assert values(1) == ([b"c"], 3)
    assert values(3) == ([], 4)
    assert log.partition.damages.found == 2
