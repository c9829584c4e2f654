"""A producer's batches behind one that is to come again: they come after it, and nobody calls them out of order."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.produce_order import refusal
from kompat.log.rejected_sequences import COUNTS_FOR_MS, PRODUCERS_AT_MOST, RejectedSequences
from kompat.types import Millis
from tests.log.support import Log, batch

ID, EPOCH = 7, 1
NOW = Millis(5_000)


def numbered(sequence: int, *, epoch: int = EPOCH) -> bytearray:
    return batch(b"v", producer_id=ID, producer_epoch=epoch, base_sequence=sequence)


def told(log: Log, sequence: int, code: ErrorCode, *, epoch: int = EPOCH) -> ErrorCode:
    return refusal(log.partition, numbered(sequence, epoch=epoch), KafkaError(code)).code


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]
)
def test_who_comes_behind_a_batch_that_was_turned_away_is_turned_away_likewise(code: ErrorCode) -> None:
    log = Log()
    log.stage(numbered(0))

    assert told(log, 1, code) is code
    assert told(log, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert told(log, 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_what_is_out_of_order_for_another_reason_is_told_so() -> None:
    log = Log()
    log.stage(numbered(0))
    assert told(log, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    told(log, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log.stage(numbered(1))  # it has come again
    assert told(log, 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert told(log, 4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, epoch=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_refusal_counts_for_a_while_and_for_so_many_producers() -> None:
    refusals = RejectedSequences()
    refusals.note(ID, EPOCH, 3, NOW)
    assert refusals.holds(ID, EPOCH, 3, Millis(NOW + COUNTS_FOR_MS - 1))
    assert not refusals.holds(ID, EPOCH, 3, Millis(NOW + COUNTS_FOR_MS))
    assert not refusals.holds(ID, EPOCH, 2, NOW)
    assert not refusals.holds(ID, EPOCH + 1, 3, NOW)

    for other in range(100, 100 + PRODUCERS_AT_MOST):
        refusals.note(other, EPOCH, 3, NOW)
    assert not refusals.holds(ID, EPOCH, 3, NOW)
