"""What this broker has just written is not decoded again, unless the log has something else."""

from __future__ import annotations

from kompat.coordination.batches import MOST_REMEMBERED, PlainBatches, RememberedBatches
from kompat.protocol.batch import stamp
from kompat.types import Millis
from tests.coordination.support import Added, LedgerCodec

NOW = Millis(7)


def written(batches: PlainBatches[Added], *records: Added) -> memoryview:
    [batch] = batches.encode(records, NOW)
    stamp(batch, 40, 3)
    return memoryview(bytes(batch))


def test_records_that_were_written_here_are_the_same_objects_at_their_offsets() -> None:
    batches = RememberedBatches(LedgerCodec())
    one, two = Added("a", 1), Added("b", 2)
    batch = written(batches, one, two)

    (first, found), (second, other) = batches.decode(batch)
    assert (first, second) == (40, 41)
    assert found is one
    assert other is two
    again = [record for _, record in batches.decode(batch)]
    assert again == [one, two]
    assert again[0] is not one


def test_what_another_broker_has_written_is_decoded() -> None:
    batch = written(PlainBatches(LedgerCodec()), Added("a", 1))

    assert list(RememberedBatches(LedgerCodec()).decode(batch)) == [(40, Added("a", 1))]


def test_a_batch_of_the_same_checksum_is_not_taken_for_another() -> None:
    batches = RememberedBatches(LedgerCodec())
    batch = written(batches, Added("a", 1))
    other = bytearray(written(PlainBatches(LedgerCodec()), Added("b", 2)))
    other[17:21] = batch[17:21]

    assert list(batches.decode(memoryview(other))) == [(40, Added("b", 2))]


def test_only_a_few_batches_are_remembered() -> None:
    batches = RememberedBatches(LedgerCodec())
    for amount in range(3 * MOST_REMEMBERED):
        written(batches, Added("a", amount))

    assert len(batches._written) == MOST_REMEMBERED
