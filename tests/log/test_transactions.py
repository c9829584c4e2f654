"""Transactions as a consumer sees them: exactly the committed records, in order, whatever was open meanwhile."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kompat.protocol.records import ControlType, Record, build_batch, control_type, iterate, read_header, split_batches
from tests.log.support import COMMITTED, NOW, Log

PRODUCERS = st.integers(1, 3)


def consume(log: Log) -> list[Record]:
    """What a read_committed consumer hands on: it leaves out aborted producers until it meets their marker."""
    found: list[Record] = []
    offset = log.partition.log_start_offset
    while True:
        result = log.read(offset, 300, COMMITTED)
        if not result.buffers:
            return found
        coming = sorted(result.aborted or (), key=lambda a: a.first_offset)
        aborted: set[int] = set()
        for batch in (b for buffer in result.buffers for b in split_batches(memoryview(buffer))):
            header = read_header(batch)
            while coming and coming[0].first_offset <= header.last_offset:
                aborted.add(coming.pop(0).producer_id)
            if header.is_control:
                if control_type(batch) is ControlType.ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                found.extend(r for r in iterate(batch) if r.offset >= offset)
        offset = result.next_offset


def numbered(value: bytes, sequence: int, timestamp: int = NOW) -> bytearray:
    record = Record(0, timestamp, None, value)
    return build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True)


@pytest.mark.parametrize("cache", [1 << 20, 0])
def test_a_number_that_was_given_up_with_an_aborted_transaction_is_used_anew(cache: int) -> None:
    """librdkafka does so with batches that it had no answer for, though they were written."""
    log = Log(cache=cache)
    log.stage(numbered(b"kept", 0))
    log.end_transaction(ControlType.COMMIT, 7)
    log.stage(numbered(b"given up", 1))
    log.stage(numbered(b"and this", 2))
    log.end_transaction(ControlType.ABORT, 7)

    again = log.stage(numbered(b"new", 1))
    assert again.base_offset == log.partition.log_end_offset - 1
    assert log.stage(numbered(b"new", 1)).base_offset == again.base_offset  # sent again
    log.stage(numbered(b"newer", 2))
    log.end_transaction(ControlType.COMMIT, 7)
    assert [record.value for record in consume(log)] == [b"kept", b"new", b"newer"]

    log.kill()
    assert log.restart().producers.expected(7, 0) == 3


def test_a_batch_of_an_ended_transaction_that_comes_once_more_is_not_written_twice() -> None:
    log = Log()
    first = log.stage(numbered(b"committed", 0))
    log.end_transaction(ControlType.COMMIT, 7)
    second = log.stage(numbered(b"aborted", 1))
    log.end_transaction(ControlType.ABORT, 7)
    end = log.partition.log_end_offset

    assert log.stage(numbered(b"aborted", 1)).base_offset == second.base_offset
    assert log.stage(numbered(b"committed", 0)).base_offset == first.base_offset
    assert (
        log.stage(numbered(b"another", 0)).base_offset == first.base_offset
    )  # as with Kafka: that one is there for good
    assert log.partition.log_end_offset == end


class TransactionModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = Log(segment_bytes=400, compact=True, delete=False, delete_retention_ms=500, cache=3000)
        self.open: dict[int, list[Record]] = {}
        self.sequences: dict[int, int] = {}
        self.committed: dict[int, Record] = {}
        self.unstable: dict[int, int] = {}  # first offset of each open transaction

    def _write(self, key: int, producer: int | None) -> Record:
        options: dict[str, object] = {}
        if producer is not None:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + 1
            options = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "is_transactional": True,
            }
        offset = self.log.partition.log_end_offset
        record = Record(0, self.log.clock.now(), b"%d" % key, b"%d" % offset)
        self.log.stage(build_batch([record], **options))  # type: ignore[arg-type]
        self.log.commit.end_turn()
        return Record(offset, record.timestamp, record.key, record.value)

    @rule(producer=PRODUCERS, key=st.integers(0, 4))
    def write_in_a_transaction(self, producer: int, key: int) -> None:
        record = self._write(key, producer)
        self.open.setdefault(producer, []).append(record)
        self.unstable.setdefault(producer, record.offset)

    @rule(key=st.integers(0, 4))
    def write(self, key: int) -> None:
        record = self._write(key, None)
        self.committed[record.offset] = record

    @precondition(lambda self: self.open)
    @rule(data=st.data(), commits=st.booleans())
    def end(self, data: st.DataObject, commits: bool) -> None:
        producer = data.draw(st.sampled_from(sorted(self.open)))
        self.log.end_transaction(ControlType.COMMIT if commits else ControlType.ABORT, producer)
        for record in self.open.pop(producer):
            if commits:
                self.committed[record.offset] = record
        del self.unstable[producer]

    @rule()
    def kill(self) -> None:
        self.log.kill()

    @rule()
    def restart(self) -> None:
        self.log.restart()

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(ms=st.integers(1, 400))
    def compact(self, ms: int) -> None:
        self.log.clock.advance(ms)
        self.log.compact()

    @invariant()
    def the_stable_offset_is_the_oldest_open_transaction(self) -> None:
        partition = self.log.partition
        assert partition.last_stable_offset == min([partition.high_watermark, *self.unstable.values()])

    @invariant()
    def consumers_see_what_was_committed(self) -> None:
        stable, cleaned = self.log.partition.last_stable_offset, self.log.partition.state.cleaned_offset
        found = {r.offset: r for r in consume(self.log)}
        expected = {o: r for o, r in self.committed.items() if o < stable}
        assert found.items() <= expected.items()
        newest = {r.key: o for o, r in sorted(expected.items()) if o < cleaned}
        for offset, record in expected.items():
            if offset >= cleaned or newest[record.key] == offset:
                assert offset in found


TransactionModel.TestCase.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTransactionModel = TransactionModel.TestCase
