"""A disk that refuses or loses writes, and restarts."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.records import ControlType
from kompat.types import Offset, RaftIndex
from tests.log.support import COMMITTED, Log, batch


def test_a_turn_that_the_disk_refused_has_never_been() -> None:
    log = Log()
    log.append(b"kept", producer_id=1, producer_epoch=0, base_sequence=0)
    log.store.is_full = True

    lost = log.append(b"lost", producer_id=1, producer_epoch=0, base_sequence=1)

    assert lost.pending.error is not None
    assert lost.pending.error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.partition.log_end_offset == log.partition.high_watermark == 1
    assert log.values() == [b"kept"]


def test_the_log_goes_on_when_there_is_room_again() -> None:
    log = Log()
    log.append(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    log.store.is_full = True
    log.append(b"b", producer_id=1, producer_epoch=0, base_sequence=1)
    log.store.is_full = False

    again = log.append(b"b", producer_id=1, producer_epoch=0, base_sequence=1)

    assert again.base_offset == 1
    assert log.values() == [b"a", b"b"]
    assert log.kill().log_end_offset == 2


def test_a_first_append_that_the_disk_refused_leaves_an_empty_log() -> None:
    log = Log()
    log.store.is_full = True
    log.append(b"lost")
    log.store.is_full = False
    assert log.append(b"kept").base_offset == 0
    log.kill()
    assert log.values() == [b"kept"]


@pytest.mark.parametrize("before", [0, 1, 3])
def test_an_append_that_the_disk_refuses_at_once_leaves_no_trace(before: int) -> None:
    log = Log(segment_bytes=100)
    for i in range(before):
        log.append(b"%d" % i)
    log.store.is_refusing = True
    for _ in range(2):
        with pytest.raises(KafkaError) as raised:
            log.append(b"refused")
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    log.store.is_full = True
    log.commit.end_turn()
    log.store.is_full = log.store.is_refusing = False

    assert log.append(b"taken").base_offset == before

    log.kill()
    assert log.values() == [*(b"%d" % i for i in range(before)), b"taken"]


def test_earlier_turns_are_kept_when_a_later_one_fails() -> None:
    log = Log()
    synced_later = log.stage(batch(b"a")).pending
    log.store.flush()  # written, but its promise waits for the disk's sync
    log.commit._turn = None
    log.store.is_full = True
    log.append(b"lost")
    assert (log.partition.log_end_offset, log.partition.high_watermark) == (1, 0)

    synced_later.resolve()

    assert log.partition.high_watermark == 1
    assert log.values() == [b"a"]


@pytest.mark.parametrize("lost_from", range(11))
def test_the_log_ends_where_the_disk_lost_it(lost_from: int) -> None:
    log = Log(segment_bytes=180)
    options = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}
    for i in range(0, 10, 2):  # a transaction each, every second of them aborted
        log.append(b"%d" % i, base_sequence=i // 2, **options)
        log.end_transaction(ControlType.ABORT if i % 4 else ControlType.COMMIT, 1)
    log.partition.close()  # the checkpoint knows all of it
    log.commit.end_turn()
    before = log.values()
    log.partition.store.truncate_from(RaftIndex(lost_from + 1), Offset(lost_from))
    log.store.flush()

    partition = log.kill()
    log.commit.end_turn()

    assert partition.log_end_offset == partition.high_watermark == lost_from
    assert log.values() == before[:lost_from]
    assert partition.size == partition.store.size()
    written = (lost_from + 1) // 2
    for i in range(12):
        log.append(b"new", base_sequence=written + i, **options)
    log.end_transaction(ControlType.COMMIT, 1)
    log.kill()
    assert log.values()[lost_from : lost_from + 12] == [b"new"] * 12
    aborted = [a.first_offset for a in log.read(0, 1 << 20, COMMITTED).aborted or ()] if lost_from else []
    assert aborted == [first for first in (2, 6) if first + 1 < lost_from]
    assert log.partition.size == log.partition.store.size()


def test_everything_committed_is_there_after_a_kill() -> None:
    log = Log(segment_bytes=300)
    for i in range(10):
        log.append(b"%d" % i * 50)
    before = log.partition.state.segments.all()
    log.stage(batch(b"not committed"))

    partition = log.kill()

    assert partition.high_watermark == partition.log_end_offset == 10
    assert log.values() == [b"%d" % i * 50 for i in range(10)]
    assert partition.state.segments.all() == before


def test_a_clean_restart_replays_nothing() -> None:
    log = Log()
    for _ in range(5):
        log.append(b"a")
    log.partition.close()
    log.commit.end_turn()
    from kompat.log.checkpoint import load

    assert load(log.store.open(log.partition.log_id)).next_index == log.partition.state.next_index


def test_the_time_of_the_roll_is_the_same_after_a_restart() -> None:
    log = Log(segment_jitter_ms=1000)
    log.append(b"a")
    before = log.partition.log._jitter
    assert log.restart().log._jitter == before
