"""Commit, epochs, transactions and the end of a partition: the rules by name."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import FoundOffset, Partition
from kompat.protocol.records import ControlType
from kompat.types import Offset
from tests.log.support import COMMITTED, NOW, Log, batch

TRANSACTION = {"producer_epoch": 0, "is_transactional": True}


def test_what_is_not_committed_is_not_read() -> None:
    log = Log()
    appended = log.stage(batch(b"a"))
    assert log.partition.high_watermark == 0
    assert log.read().buffers == []
    assert not appended.pending.is_done

    log.commit.end_turn()

    assert appended.pending.is_done
    assert log.values() == [b"a"]


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
