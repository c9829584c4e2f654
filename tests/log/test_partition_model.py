"""A partition against a list of records: whatever happens to it, in whatever order."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kompat.protocol.records import Record, build_batch
from kompat.types import Offset
from tests.log.support import NOW, UNCOMMITTED, Log, run

KEYS = [b"a", b"b", b"c" * 20]
RECORDS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from([b"", b"v", b"w" * 60, None]), st.integers(-3000, 3000)),
    min_size=1,
    max_size=4,
)


class PartitionModel(RuleBasedStateMachine):
    """`written` is all that was ever appended and not lost, by offset; compaction makes holes in it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Record] = []  # committed
        self.staged: list[Record] = []
        self.start = 0
        self.cleaned = 0  # everything before it has been compacted

    @initialize(
        compact=st.booleans(), delete=st.booleans(), cache=st.sampled_from([0, 1500, 1 << 20]), codec=st.integers(0, 4)
    )
    def create(self, compact: bool, delete: bool, cache: int, codec: int) -> None:
        self.codec = codec
        self.log = Log(cache=cache, **self._config(compact=compact, delete=delete))

    @staticmethod
    def _config(**config: Any) -> dict[str, Any]:
        # Deletions stay for ever: when exactly they go is not the model's business.
        return {
            "segment_bytes": 500,
            "segment_ms": 2500,
            "retention_ms": 8000,
            "retention_bytes": 1500,
            "delete_retention_ms": 1 << 50,
            **config,
        }

    # -- what happens ----------------------------------------------------------------------------------------------
    @rule(content=RECORDS)
    def append(self, content: list[tuple[bytes, bytes | None, int]]) -> None:
        now, base = self.log.clock.now(), len(self.written) + len(self.staged)
        records = [Record(i, now + t, key, value) for i, (key, value, t) in enumerate(content)]
        appended = self.log.stage(build_batch(records, compression=self.codec))
        assert (appended.base_offset, appended.last_offset) == (base, base + len(records) - 1)
        self.staged += [Record(base + r.offset, r.timestamp, r.key, r.value) for r in records]

    @rule()
    def end_turn(self) -> None:
        self.log.commit.end_turn()
        self.written += self.staged
        self.staged = []

    @rule()
    def end_turn_on_a_full_disk(self) -> None:
        self.log.store.is_full = True
        self.log.commit.end_turn()
        self.log.store.is_full = False
        self.staged = []

    @rule()
    def kill(self) -> None:
        self.log.kill()
        self.staged = []

    @rule()
    def restart(self) -> None:
        self.end_turn()
        self.log.restart()

    @rule(ms=st.integers(1, 4000))
    def wait(self, ms: int) -> None:
        self.log.clock.advance(ms)

    @rule()
    def roll(self) -> None:
        self.end_turn()
        self.log.roll()

    @rule()
    def retain(self) -> None:
        self.end_turn()
        partition, now = self.log.partition, self.log.clock.now()
        before = partition.log_start_offset
        partition.upkeep.enforce_retention(now)
        self.log.commit.end_turn()
        gone = self.written[before : partition.log_start_offset]
        self.start = partition.log_start_offset
        if not self.log.config.delete:
            assert not gone
        # What is gone was too old, or there was too much: then at least retention.bytes are left.
        assert partition.size >= 1500 or all(now - r.timestamp > 8000 for r in gone)

    @precondition(lambda self: self.log.config.delete or not self.log.config.compact)
    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        self.end_turn()
        target = int(len(self.written) * part)
        low = self.log.run(self.log.partition.delete_records(Offset(target)))
        self.start = max(self.start, target)
        assert low == self.start

    @precondition(lambda self: self.log.config.compact)
    @rule(memory=st.sampled_from([1, 400, 1 << 20]))
    def compact(self, memory: int) -> None:
        self.end_turn()
        if self.log.compact(memory=memory):
            self.cleaned = self.log.partition.state.cleaned_offset

    # -- what holds ------------------------------------------------------------------------------------------------
    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        partition = self.log.partition
        assert partition.log_start_offset == self.start
        assert partition.log_end_offset == len(self.written) + len(self.staged)
        assert partition.high_watermark == partition.last_stable_offset == len(self.written)

    @invariant()
    def reads_give_what_was_written(self) -> None:
        found = self.log.records(self.start)
        for record in found:
            assert record == self.written[record.offset]
        there = {r.offset for r in found}
        newest = {r.key: r.offset for r in self.written[: self.cleaned]}
        for offset in range(self.start, len(self.written)):
            if offset >= self.cleaned or newest[self.written[offset].key] == offset:
                assert offset in there
        assert len(there) == len(found)

    @invariant()
    def what_is_clean_holds_a_key_once(self) -> None:
        cleaned = [r.key for r in self.log.records(self.start) if r.offset < self.cleaned]
        assert len(cleaned) == len(set(cleaned))

    @invariant()
    def sizes_are_those_of_the_store(self) -> None:
        if not self.staged:
            assert self.log.partition.size == self.log.partition.store.size()

    @invariant()
    def times_are_found(self) -> None:
        found = self.log.records(self.start)
        for timestamp in {r.timestamp for r in found[:2]} | {NOW, NOW + 5000}:
            expected = next((r.offset for r in found if r.timestamp >= timestamp), None)
            at = run(self.log.partition.offset_for_time(timestamp))
            assert (at.offset if at else None) == expected
        newest = run(self.log.partition.max_timestamp_offset())
        assert (newest.timestamp if newest else None) == max((r.timestamp for r in found), default=None)

    @invariant()
    def available_is_never_less_than_a_read_gives(self) -> None:
        offset = Offset((self.start + len(self.written)) // 2)
        size = self.log.read(offset).size
        assert self.log.partition.available(offset, UNCOMMITTED) >= size


PartitionModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPartitionModel = PartitionModel.TestCase
