"""Append, commit and read: the rules by name."""

import pytest

from kompat.errors import DamagedOffsets, ErrorCode, KafkaError
from kompat.log.partition import ALL_COMMITTED, FoundOffset, Isolation, Partition
from kompat.protocol.records import ControlType, Record, build_batch, iterate
from kompat.types import Offset, RaftIndex
from tests.log.sim.disk import SimPartition
from tests.log.support import COMMITTED, NOW, UNCOMMITTED, Log, batch, records_of, run

TRANSACTION = {"producer_epoch": 0, "is_transactional": True}


def test_offsets_are_dense_and_answered() -> None:
    log = Log()
    first, second = log.append(b"a", b"b", b"c"), log.append(b"d")
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 2, 3)
    assert log.partition.log_end_offset == log.partition.high_watermark == 4


def test_what_is_not_committed_is_not_read() -> None:
    log = Log()
    appended = log.stage(batch(b"a"))
    assert log.partition.high_watermark == 0
    assert log.read().buffers == []
    assert not appended.pending.is_done

    log.commit.end_turn()

    assert appended.pending.is_done
    assert log.values() == [b"a"]


def test_all_appends_of_a_turn_are_committed_together() -> None:
    log = Log()
    assert log.stage(batch(b"a")).pending is log.stage(batch(b"b")).pending
    log.commit.end_turn()
    assert log.partition.high_watermark == 2


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


def test_watchers_hear_of_every_advance_until_they_take_themselves_off() -> None:
    log = Log()
    heard: list[int] = []

    def watcher(partition: Partition) -> None:
        heard.append(partition.high_watermark)
        if len(heard) == 2:
            partition.unwatch(watcher)

    log.partition.watch(watcher)
    for _ in range(3):
        log.append(b"a")
    assert heard == [1, 2]


# -- a full disk -------------------------------------------------------------------------------------------------------
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


# -- a disk that lost its newest writes --------------------------------------------------------------------------------
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


# -- restart -----------------------------------------------------------------------------------------------------------
def test_everything_committed_is_there_after_a_kill() -> None:
    log = Log(segment_bytes=300)
    for i in range(10):
        log.append(b"%d" % i * 50)
    before = log.partition.segments.all()
    log.stage(batch(b"not committed"))

    partition = log.kill()

    assert partition.high_watermark == partition.log_end_offset == 10
    assert log.values() == [b"%d" % i * 50 for i in range(10)]
    assert partition.segments.all() == before


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
    before = log.partition._jitter
    assert log.restart()._jitter == before


# -- leader epochs -----------------------------------------------------------------------------------------------------
def test_a_new_log_is_led_in_epoch_0() -> None:
    log = Log()
    assert log.partition.leader_epoch == 0
    assert log.partition.end_offset_for_epoch(0) == (0, 0)
    assert log.partition.earliest() == FoundOffset(Offset(0), -1, 0)


def test_epochs_end_where_the_next_begins() -> None:
    log = Log()
    log.append(b"a", b"b")
    log.partition.lead(4)
    log.append(b"c")
    log.kill()
    assert log.partition.leader_epoch == 4
    assert log.partition.end_offset_for_epoch(0) == (0, 2)
    assert log.partition.end_offset_for_epoch(2) == (0, 2)
    assert log.partition.end_offset_for_epoch(4) == (4, 3)
    assert log.partition.end_offset_for_epoch(5) == (-1, -1)


# -- transactions ------------------------------------------------------------------------------------------------------
def test_an_open_transaction_holds_back_the_last_stable_offset() -> None:
    log = Log()
    log.append(b"before")
    log.append(b"open", producer_id=1, base_sequence=0, **TRANSACTION)
    log.append(b"after")

    assert (log.partition.high_watermark, log.partition.last_stable_offset) == (3, 1)
    assert log.values(isolation=COMMITTED) == [b"before"]
    assert log.values() == [b"before", b"open", b"after"]


def test_a_commit_marker_lets_it_go_and_has_an_offset() -> None:
    log = Log()
    log.append(b"open", producer_id=1, base_sequence=0, **TRANSACTION)
    log.end_transaction(ControlType.COMMIT, 1)
    assert log.partition.last_stable_offset == log.partition.high_watermark == 2
    assert log.read(isolation=COMMITTED).aborted == []


def test_the_stable_offset_waits_until_the_marker_is_committed() -> None:
    log = Log()
    log.append(b"open", producer_id=1, base_sequence=0, **TRANSACTION)
    from kompat.log.partition import Origin
    from kompat.protocol.records import control_batch

    marker = control_batch(ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
    log.stage(marker, Origin.INTERNAL)
    assert log.partition.last_stable_offset == 0
    log.commit.end_turn()
    assert log.partition.last_stable_offset == 2


@pytest.mark.parametrize("restart", ["kill", "restart", None])
def test_aborted_transactions_are_listed_where_their_records_are_read(restart: str | None) -> None:
    log = Log()
    log.append(b"aborted", producer_id=1, base_sequence=0, **TRANSACTION)  # 0
    log.append(b"other")  # 1
    log.append(b"committed", producer_id=2, base_sequence=0, **TRANSACTION)  # 2
    log.end_transaction(ControlType.ABORT, 1)  # 3
    log.end_transaction(ControlType.COMMIT, 2)  # 4
    log.append(b"later")  # 5
    if restart:
        getattr(log, restart)()

    def aborted(offset: int, max_bytes: int = 1 << 20) -> list[tuple[int, int]]:
        return [(a.producer_id, a.first_offset) for a in log.read(offset, max_bytes, COMMITTED).aborted or ()]

    assert aborted(0) == aborted(2) == aborted(3) == [(1, 0)]
    assert aborted(4) == aborted(5) == []
    assert log.read(0).aborted is None


@pytest.mark.parametrize("restart", ["kill", "restart"])
def test_an_open_transaction_is_open_after_a_restart(restart: str) -> None:
    log = Log()
    log.append(b"a", producer_id=1, base_sequence=0, **TRANSACTION)
    getattr(log, restart)()
    assert log.partition.last_stable_offset == 0
    log.end_transaction(ControlType.ABORT, 1)
    assert log.partition.last_stable_offset == 2


def test_a_marker_of_a_fenced_coordinator_is_refused() -> None:
    log = Log()
    log.append(b"a", producer_id=1, base_sequence=0, **TRANSACTION)
    log.end_transaction(ControlType.ABORT, 1, coordinator_epoch=5)
    with pytest.raises(KafkaError) as raised:
        log.end_transaction(ControlType.ABORT, 1, coordinator_epoch=4)
    assert raised.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


# -- idempotence -------------------------------------------------------------------------------------------------------
def test_a_duplicate_is_answered_with_its_old_offsets() -> None:
    log = Log()
    data = batch(b"a", b"b", producer_id=1, producer_epoch=0, base_sequence=0)
    log.stage(bytearray(data))
    log.commit.end_turn()
    log.append(b"c")

    again = log.stage(data)

    assert (again.base_offset, again.last_offset) == (0, 1)
    assert again.pending.is_done
    assert log.partition.log_end_offset == 3


def test_a_duplicate_of_what_is_under_way_waits_for_it() -> None:
    log = Log()
    data = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    first, again = log.stage(bytearray(data)), log.stage(data)
    assert again.pending is first.pending
    assert not again.pending.is_done


def test_a_duplicate_is_answered_with_its_time() -> None:
    log = Log()
    for _ in range(2):
        appended = log.append(b"a", producer_id=1, producer_epoch=0, base_sequence=0, timestamp=NOW - 5)
    assert appended.log_append_time == NOW - 5


# -- offsets by time ---------------------------------------------------------------------------------------------------
def at_time(log: Log, timestamp: int, isolation: Isolation = UNCOMMITTED) -> int | None:
    found = run(log.partition.offset_for_time(timestamp, isolation))
    return found.offset if found else None


def test_the_first_record_at_or_after_a_time_is_found_inside_a_batch() -> None:
    log = Log()
    log.stage(build_batch([Record(i, NOW + t, None, b"v") for i, t in enumerate([0, 30, 10, 40])]))
    log.commit.end_turn()
    assert [at_time(log, NOW + t) for t in (-5, 0, 5, 30, 31, 40, 41)] == [0, 0, 1, 1, 3, 3, None]


def test_the_time_index_survives_out_of_order_timestamps() -> None:
    log = Log(segment_bytes=200_000, message_timestamp_after_max_ms=1 << 60)
    times = [i * 10 for i in range(40)]
    times[7] = 10_000  # an outlier
    for t in times:
        log.append(b"x" * 40_000, timestamp=NOW + t)
    for t in (0, 65, 66, 200, 395, 9_000, 10_001):
        expected = next((i for i, own in enumerate(times) if own >= t), None)
        assert at_time(log, NOW + t) == expected
    log.kill()
    assert at_time(log, NOW + 55) == 6


def test_deleted_records_are_not_found_by_time() -> None:
    log = Log()
    log.stage(build_batch([Record(i, NOW, None, b"v") for i in range(4)]))
    log.commit.end_turn()
    delete(log, 2)
    assert at_time(log, NOW) == 2


def test_the_newest_timestamp_is_found_with_its_first_record() -> None:
    log = Log(segment_bytes=200)
    for t in (0, 50, 20, 50):
        log.append(b"x" * 50, b"y", timestamp=NOW + t)
    found = run(log.partition.max_timestamp_offset())
    assert found == FoundOffset(Offset(2), NOW + 50, 0)
    delete(log, 5)
    found = run(log.partition.max_timestamp_offset())
    assert found == FoundOffset(Offset(6), NOW + 50, 0)


def test_an_empty_log_has_no_newest_record() -> None:
    assert run(Log().partition.max_timestamp_offset()) is None


def test_nothing_beyond_the_stable_offset_is_found_by_time() -> None:
    log = Log()
    log.append(b"a", timestamp=NOW)
    log.append(b"open", producer_id=1, base_sequence=0, timestamp=NOW + 9, **TRANSACTION)
    assert at_time(log, NOW + 9) == 1
    assert at_time(log, NOW + 9, COMMITTED) is None


def test_latest_depends_on_the_isolation() -> None:
    log = Log()
    log.append(b"open", producer_id=1, base_sequence=0, **TRANSACTION)
    assert (log.partition.latest().offset, log.partition.latest(COMMITTED).offset) == (1, 0)


# -- DeleteRecords -----------------------------------------------------------------------------------------------------
def delete(log: Log, offset: int) -> int:
    return log.run(log.partition.delete_records(Offset(offset)))


def test_deleting_records_moves_the_start_and_stays_after_a_kill() -> None:
    log = Log()
    log.append(b"a", b"b", b"c")
    assert delete(log, 2) == 2
    assert log.kill().log_start_offset == 2
    assert log.values(2) == [b"c"]


def test_deleting_up_to_the_high_watermark_empties_the_log() -> None:
    log = Log()
    log.append(b"a", b"b")
    assert delete(log, ALL_COMMITTED) == 2
    assert delete(log, 1) == 2  # the start never goes back
    assert log.append(b"c").base_offset == 2


@pytest.mark.parametrize("offset", [-2, 3])
def test_deleting_beyond_the_log_is_refused(offset: int) -> None:
    log = Log()
    log.append(b"a", b"b")
    with pytest.raises(KafkaError) as raised:
        delete(log, offset)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleting_from_a_compacted_topic_is_against_its_policy() -> None:
    log = Log(compact=True, delete=False)
    log.append(b"a")
    with pytest.raises(KafkaError) as raised:
        delete(log, 1)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION


# -- the end -----------------------------------------------------------------------------------------------------------
def test_a_dropped_partition_says_so_and_wakes_who_waits() -> None:
    log = Log()
    heard: list[Partition] = []
    log.partition.watch(heard.append)
    log.partition.drop()
    assert heard == [log.partition]
    for use in (lambda: log.read(), lambda: log.append(b"a")):
        with pytest.raises(KafkaError) as raised:
            use()
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


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
