"""What takes the place of damaged batches."""

from hypothesis import given
from hypothesis import strategies as st

from kompat.log.storage.store import StoredBatch
from kompat.protocol.records import Record, build_batch, iterate, read_header
from kompat.raft.replica.mending_rules import Answer, Conclusion, Offer, conclude, replacements
from kompat.types import Millis, NodeId, Offset


def a_batch(base: int, count: int = 2, time: int = 5, value: bytes = b"value") -> bytearray:
    return build_batch([Record(base + i, time, b"key", value) for i in range(count)], base_offset=base)


def stored(batch: bytearray) -> StoredBatch:
    header = read_header(batch)
    return StoredBatch(Offset(header.base_offset), Offset(header.last_offset), len(batch), Millis(header.max_timestamp))


def offer(*batches: bytearray, end: int = 100) -> Offer:
    return Offer({read_header(batch).base_offset: batch for batch in batches}, Offset(end))


def test_the_same_batch_of_another_replica_is_taken() -> None:
    batch = a_batch(4)
    (found,) = replacements([stored(batch)], offer(a_batch(2), batch, a_batch(6)), is_compacted=False)
    assert (found.base_offset, found.last_offset, found.max_timestamp, found.batch) == (4, 5, 5, batch)


def test_a_batch_that_cannot_have_been_the_same_is_not_taken() -> None:
    batch = a_batch(4)
    for other in (a_batch(4, count=3), a_batch(4, time=6), a_batch(4, value=b"longer value")):
        assert replacements([stored(batch)], offer(other), is_compacted=False) == []
    assert replacements([stored(batch)], offer(a_batch(2)), is_compacted=False) == []


def test_in_a_compacted_log_what_another_replica_has_left_of_it_is_taken() -> None:
    batch = a_batch(4, count=3)
    left = build_batch([Record(6, 5, b"key", b"value")], base_offset=4, last_offset_delta=2)
    (found,) = replacements([stored(batch)], offer(left), is_compacted=True)
    assert found.batch == left


def test_in_a_compacted_log_nothing_takes_the_place_of_what_another_replica_has_removed() -> None:
    batch = a_batch(4, count=3)
    (found,) = replacements([stored(batch)], offer(a_batch(7)), is_compacted=True)
    assert found.batch is not None
    assert list(iterate(found.batch)) == []
    assert (read_header(found.batch).base_offset, read_header(found.batch).last_offset) == (4, 6)
    assert replacements([stored(batch)], offer(end=6), is_compacted=True) == []  # it has not looked so far


def test_what_follows_from_the_answers() -> None:
    a, b = NodeId(1), NodeId(2)
    assert conclude({a: Answer.HAS_NONE, b: Answer.MENDED}, [a, b]) == (Conclusion.MENDED, None)
    assert conclude({a: Answer.HAS_NONE, b: Answer.UNUSABLE}, [a, b]) == (Conclusion.HAND_OVER, b)
    assert conclude({a: Answer.UNUSABLE}, [b]) == (Conclusion.WAIT, None)  # one that cannot lead
    assert conclude({a: Answer.HAS_NONE, b: Answer.SILENT}, [a, b]) == (Conclusion.WAIT, None)
    assert conclude({a: Answer.HAS_NONE, b: Answer.HAS_NONE}, [a, b]) == (Conclusion.LOST, None)
    assert conclude({}, [a]) == (Conclusion.LOST, None)


@given(st.dictionaries(st.integers(1, 5).map(NodeId), st.sampled_from(Answer)))
def test_nothing_is_called_lost_while_somebody_may_have_it(answers: dict[NodeId, Answer]) -> None:
    conclusion, _ = conclude(answers, list(answers))
    assert (conclusion is Conclusion.LOST) == all(answer is Answer.HAS_NONE for answer in answers.values())
