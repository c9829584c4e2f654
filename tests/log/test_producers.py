"""Idempotence and transactions, by name and against a model."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.errors import ErrorCode, KafkaError
from kompat.log.producers import LAST_SEQUENCE, PastBatch, Producers
from kompat.types import Millis, Offset


def append(
    producers: Producers,
    end: int,
    epoch: int,
    first: int,
    count: int = 1,
    *,
    transactional: bool = False,
    producer_id: int = 1,
) -> PastBatch | None:
    """Admit and add a batch at offset `end`: what it repeats, if it does."""
    past = producers.admit(producer_id, epoch, first, count, transactional=transactional)
    if past is None:
        last = (first + count - 1) & LAST_SEQUENCE
        added = PastBatch(first, last, Offset(end), Offset(end + count - 1), Millis(end))
        producers.add(producer_id, epoch, added, transactional=transactional)
    return past


def refused(producers: Producers, epoch: int, first: int, count: int = 1, *, transactional: bool = False) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        append(producers, 1000, epoch, first, count, transactional=transactional)
    return raised.value.code


def test_the_last_five_batches_are_recognised() -> None:
    producers = Producers()
    for i in range(7):
        append(producers, i * 10, 0, i * 10, 10)
    for i in range(2, 7):
        past = append(producers, 999, 0, i * 10, 10)
        assert past is not None
        assert (past.base_offset, past.last_offset) == (i * 10, i * 10 + 9)


def test_what_is_older_than_five_batches_is_out_of_order() -> None:
    producers = Producers()
    for i in range(7):
        append(producers, i, 0, i)
    assert refused(producers, 0, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(("first", "count"), [(0, 2), (1, 2), (2, 1), (4, 1), (9, 1)])
def test_overlaps_and_gaps_are_out_of_order(first: int, count: int) -> None:
    producers = Producers()
    append(producers, 0, 0, 0, 3)
    assert refused(producers, 0, first, count) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_with_any_number() -> None:
    assert append(Producers(), 0, 3, 77) is None


def test_an_older_epoch_is_fenced() -> None:
    producers = Producers()
    append(producers, 0, 2, 0)
    assert refused(producers, 1, 1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_with_zero() -> None:
    producers = Producers()
    append(producers, 0, 0, 0)
    assert refused(producers, 1, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(producers, 1, 1, 0) is None
    assert append(producers, 2, 1, 1) is None


def test_a_new_epoch_forgets_the_batches_of_the_old() -> None:
    producers = Producers()
    append(producers, 0, 0, 0)
    append(producers, 1, 1, 0)
    past = append(producers, 2, 1, 0)
    assert past is not None
    assert past.base_offset == 1


@pytest.mark.parametrize("last", [LAST_SEQUENCE, LAST_SEQUENCE - 1])
def test_sequences_go_on_at_zero_after_the_last(last: int) -> None:
    producers = Producers()
    append(producers, 0, 0, last, 3)
    following = (last + 3) & LAST_SEQUENCE
    assert append(producers, 3, 0, following) is None
    past = append(producers, 9, 0, last, 3)
    assert past is not None
    assert past.base_offset == 0


def test_a_producer_in_a_transaction_writes_nothing_else() -> None:
    producers = Producers()
    append(producers, 0, 0, 0, transactional=True)
    assert refused(producers, 0, 1) is ErrorCode.INVALID_TXN_STATE


def test_the_oldest_open_transaction_is_the_first_unstable_offset() -> None:
    producers = Producers()
    append(producers, 5, 0, 0, transactional=True, producer_id=1)
    append(producers, 6, 0, 0, transactional=True, producer_id=2)
    append(producers, 7, 0, 1, transactional=True, producer_id=1)
    assert producers.first_unstable() == 5

    aborted = producers.end_transaction(1, 0, 0, Offset(8), Millis(0), aborts=True)

    assert aborted is not None
    assert (aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (5, 8, 6)
    assert producers.first_unstable() == 5  # until the marker is committed
    producers.advance(Offset(8))
    assert producers.first_unstable() == 5
    producers.advance(Offset(9))
    assert producers.first_unstable() == 6


def test_a_marker_without_a_transaction_leaves_no_abort() -> None:
    producers = Producers()
    assert producers.end_transaction(1, 4, 0, Offset(0), Millis(0), aborts=True) is None
    assert refused(producers, 3, 0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_after_a_markers_higher_epoch_numbers_begin_anew() -> None:
    producers = Producers()
    append(producers, 0, 0, 0, transactional=True)
    producers.end_transaction(1, 1, 0, Offset(1), Millis(0), aborts=False)
    assert refused(producers, 1, 1, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(producers, 2, 1, 0, transactional=True) is None


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    producers = Producers()
    append(producers, 100, 0, 0, producer_id=1)
    append(producers, 100, 0, 0, producer_id=2, transactional=True)
    append(producers, 101, 0, 0, producer_id=3)
    assert producers.expire(Millis(200), 100) == 1
    assert sorted(p.producer_id for p in producers.active()) == [2, 3]


# -- against a model ---------------------------------------------------------------------------------------------------
@dataclass
class Model:
    """What Kafka's rules say, written down the slow way: all batches of the current epoch are kept."""

    epoch: int | None = None
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # first sequence, count, offset

    def judge(self, epoch: int, first: int, count: int) -> ErrorCode | int | None:
        """An error, the offset that is repeated, or None: it is taken."""
        if self.epoch is None:
            return None
        if epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if first != 0 else None
        for old_first, old_count, offset in self.batches[-5:]:
            if (old_first, old_count) == (first, count):
                return offset
        old_first, old_count, _ = self.batches[-1]
        return None if first == (old_first + old_count) % 2**31 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def take(self, epoch: int, first: int, count: int, offset: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.batches = epoch, []
        self.batches.append((first, count, offset))


@given(
    start=st.sampled_from([0, 5, LAST_SEQUENCE - 4, LAST_SEQUENCE]),
    steps=st.lists(st.tuples(st.integers(-1, 1), st.integers(-8, 2), st.integers(1, 3)), max_size=60),
)
def test_sequences_are_judged_as_the_model_judges_them(start: int, steps: list[tuple[int, int, int]]) -> None:
    producers, model = Producers(), Model()
    epoch, following, offset = 1, start, 0
    for epoch_step, jump, count in steps:
        sent_epoch = max(0, epoch + (epoch_step if jump == 0 else 0))
        first = 0 if sent_epoch > epoch and jump == 0 else (following + jump) % 2**31
        expected = model.judge(sent_epoch, first, count)
        try:
            past = append(producers, offset, sent_epoch, first, count)
            found: ErrorCode | int | None = past.base_offset if past else None
        except KafkaError as error:
            found = error.code
        assert found == expected
        if expected is None:
            model.take(sent_epoch, first, count, offset)
            epoch, following, offset = sent_epoch, (first + count) % 2**31, offset + count
