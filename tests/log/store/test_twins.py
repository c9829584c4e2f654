"""The store on disk and its twin in memory answer alike, whatever is done to them."""

import tempfile
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kompat.log.memory import MemoryStore
from kompat.log.rocks import RocksStore
from kompat.log.store import EntryKind, PartitionStore, Rewrite
from kompat.types import LogId, Millis, Offset, RaftIndex
from tests.log.store.batches import LOG, OTHER, a_batch, an_entry

LOGS = st.sampled_from([LOG, OTHER])
SIZES = st.sampled_from([61, 100, 4095, 4096, 9000])
END = Offset(1 << 60)


class _Model:
    """What the caller knows of a log: what a partition would know."""

    def __init__(self) -> None:
        self.index = 1
        self.offset = 0
        self.segment = 0
        self.start = 0
        self.flushed: list[int] = []  # base offsets
        self.staged: list[int] = []


class Twins(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="kompat-twins-")
        self.memory = MemoryStore()
        self.disk = RocksStore(self.directory.name, max_open_files=2)
        self.models = {LOG: _Model(), OTHER: _Model()}

    def teardown(self) -> None:
        if hasattr(self, "disk"):
            self.disk.close()
            self.directory.cleanup()

    def both(self, log: LogId) -> list[PartitionStore]:
        return [self.memory.open(log), self.disk.open(log)]

    @rule(log=LOGS, count=st.integers(1, 5), size=SIZES, times=st.integers(1, 4))
    def append(self, log: LogId, count: int, size: int, times: int) -> None:
        model = self.models[log]
        for _ in range(times):
            entry = an_entry(model.index, model.offset, count, size)
            for store in self.both(log):
                store.append(entry, memoryview(bytearray(a_batch(model.offset, size))), Offset(model.segment))
            model.staged.append(model.offset)
            model.index += 1
            model.offset += count

    @rule(log=LOGS)
    def append_an_entry_without_offsets(self, log: LogId) -> None:
        model = self.models[log]
        entry = replace(an_entry(model.index, model.offset, 0, 7), kind=EntryKind.MEMBERSHIP)
        for store in self.both(log):
            store.append(entry, b"members", Offset(model.segment))
        model.index += 1

    @rule(log=LOGS)
    def roll(self, log: LogId) -> None:
        self.models[log].segment = self.models[log].offset

    @rule(log=LOGS, share=st.floats(0, 1))
    def truncate(self, log: LogId, share: float) -> None:
        model = self.models[log]
        bases = model.flushed + model.staged
        offset = bases[int(share * (len(bases) - 1))] if bases else model.offset
        index = max(1, model.index - len([base for base in bases if base >= offset]))
        for store in self.both(log):
            store.truncate_from(RaftIndex(index), Offset(offset))
        model.flushed = [base for base in model.flushed if base < offset]
        model.staged = [base for base in model.staged if base < offset]
        model.index, model.offset = index, offset
        model.segment = min(model.segment, offset)

    @rule(log=LOGS, share=st.floats(0, 1))
    def drop_before(self, log: LogId, share: float) -> None:
        model = self.models[log]
        offset = model.start + int(share * (model.offset - model.start))
        for store in self.both(log):
            store.drop_before(RaftIndex(max(1, model.index - 3)), Offset(offset), [])
        model.start = offset

    @rule(log=LOGS)
    def drop_whole_segments(self, log: LogId) -> None:
        model = self.models[log]
        for store in self.both(log):
            store.drop_before(RaftIndex(model.index), Offset(model.offset), [Offset(model.segment)])
        model.start = model.segment = model.offset
        model.flushed, model.staged = [], []

    @rule(log=LOGS, picks=st.sets(st.integers(0, 30), min_size=1), size=SIZES, keep=st.booleans())
    def rewrite(self, log: LogId, picks: set[int], size: int, keep: bool) -> None:
        model = self.models[log]
        bases = [base for at, base in enumerate(model.flushed) if at in picks]
        last = {batch.base_offset: batch.last_offset for batch in self.memory.open(log).batches(Offset(0))}
        changes = [
            Rewrite(
                Offset(base), last.get(Offset(base), Offset(base)), Millis(5), a_batch(base, size, 1) if keep else None
            )
            for base in bases
        ]
        for store in self.both(log):
            store.rewrite(changes, Offset(0))
        if not keep:
            model.flushed = [base for base in model.flushed if base not in bases]

    @rule(log=LOGS, by=st.integers(0, 50))
    def add_time(self, log: LogId, by: int) -> None:
        offset = self.models[log].offset
        for store in self.both(log):
            store.add_time_index(Millis(1_000_000 + offset * 100 + by), Offset(offset))

    @rule(log=LOGS, name=st.sampled_from([b"", b"a", b"ab", b"b\xff"]), value=st.binary(max_size=5))
    def put_state(self, log: LogId, name: bytes, value: bytes) -> None:
        for store in self.both(log):
            store.put_state(name, value)

    @rule(log=LOGS, name=st.sampled_from([b"", b"a", b"ab"]))
    def delete_state(self, log: LogId, name: bytes) -> None:
        for store in self.both(log):
            store.delete_state(name)

    @rule(log=LOGS)
    def drop(self, log: LogId) -> None:
        self.flush()
        self.memory.drop(log)
        self.disk.drop(log)
        self.flush()
        self.models[log] = _Model()

    @rule()
    def flush(self) -> None:
        self.memory.flush()
        self.disk.flush()
        for model in self.models.values():
            model.flushed += model.staged
            model.staged = []

    @precondition(lambda self: not self.memory.has_staged())
    @rule(is_forgetful=st.booleans())
    def restart(self, is_forgetful: bool) -> None:
        self.disk.close()
        self.disk = RocksStore(self.directory.name, max_open_files=2)
        if is_forgetful:  # a partition that rolls otherwise than before
            for model in self.models.values():
                model.segment = 0

    @invariant()
    def answers_are_alike(self) -> None:
        if not hasattr(self, "disk"):
            return
        assert self.memory.has_staged() == self.disk.has_staged()
        assert set(self.memory.logs()) <= set(self.disk.logs())
        for log, model in self.models.items():
            memory, disk = self.both(log)
            assert answers(memory, model.offset) == answers(disk, model.offset)


def answers(store: PartitionStore, end: int) -> list[Any]:
    offsets = sorted({0, end // 3, end // 2, end - 1, end, end + 1} - {-1})
    entries = list(store.entries(RaftIndex(0)))
    return [
        store.first_entry(),
        store.last_entry(),
        entries,
        [store.payload(entry.index) for entry in entries],
        list(store.entries(RaftIndex(3))),
        list(store.states(b"")),
        list(store.states(b"a")),
        store.state(b"ab"),
        store.state_range(b"", b"z", 100, 1000),
        store.state_range(b"a\x00", b"ab", 1, 1000),
        store.state_range(b"a", b"z", 2, 4),
        store.state_range(b"b", b"a", 2, 4),
        store.size(),
        [list(store.batches(Offset(offset))) for offset in offsets],
        [joined(store, offset, limit) for offset in offsets for limit in (0, 5000, 1 << 20)],
        [joined(store, offset, 1 << 20, end // 2) for offset in offsets],
        [store.time_index(Millis(1_000_000 + time * 100)) for time in range(0, end + 2, 1 + end // 20)],
    ]


def joined(store: PartitionStore, offset: int, limit: int, end: int = END) -> tuple[bytes, int, int]:
    run = store.read(Offset(offset), limit, Offset(end))
    return b"".join(run.buffers), run.size, run.next_offset


TestTwins = Twins.TestCase
TestTwins.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
