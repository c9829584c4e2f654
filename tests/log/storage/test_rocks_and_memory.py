"""The store on disk and its twin in memory answer alike, whatever is done to them.

Seeded random walks: what matters shows only in logs that have grown for a while, which a search for small examples avoids.
"""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kompat.errors import StorageError
from kompat.log.storage.database import Database
from kompat.log.storage.memory import MemoryStore
from kompat.log.storage.rocks import RocksStore
from kompat.log.storage.store import EntryKind, PartitionStore, Rewrite, StoredBatch
from kompat.log.storage.valuelog import ValueLog
from kompat.types import LogId, Millis, Offset, RaftIndex
from tests.log.storage.batches import LOG, OTHER, a_batch, an_entry

STEPS = 120
SEEDS = 8
SIZES = [61, 100, 2047, 2048, 9000]
NAMES = [b"", b"a", b"ab", b"b\xff"]
END = 1 << 60


@dataclass
class _Known:
    """What a partition knows of its log."""

    index: int = 1
    offset: int = 0
    segment: int = 0
    start: int = 0
    flushed: list[int] = field(default_factory=list)  # base offsets
    staged: list[int] = field(default_factory=list)


class Twins:
    def __init__(self, directory: str, seed: int) -> None:
        self.choose = random.Random(seed)
        self.directory = directory
        self.memory = MemoryStore()
        self.disk = RocksStore(directory, max_open_files=2)
        self.known = {LOG: _Known(), OTHER: _Known()}
        self.written = deepcopy(self.known)
        self.done: list[str] = []  # for whoever has to find out what went wrong

    def step(self) -> None:
        actions: dict[Callable[[LogId], None], int] = {
            self.append: 40,
            self.flush: 20,
            self.rewrite: 12,
            self.roll: 6,
            self.truncate: 5,
            self.drop_before: 5,
            self.add_time: 5,
            self.put_state: 4,
            self.append_without_offsets: 3,
            self.append_with_payload: 3,
            self.append_without_entry: 3,
            self.bad_disk: 3,
            self.restart: 3,
            self.delete_state: 2,
            self.delete_states: 2,
            self.drop_segments: 1,
            self.drop: 1,
        }
        (action,) = self.choose.choices(list(actions), list(actions.values()))
        log = self.choose.choice([LOG, LOG, LOG, OTHER])
        self.done.append(f"{action.__name__} {log.partition}")
        action(log)

    def both(self, log: LogId) -> list[PartitionStore]:
        return [self.memory.open(log), self.disk.open(log)]

    # -- what is done ----------------------------------------------------------------------------------------------
    def append(self, log: LogId) -> None:
        known = self.known[log]
        for _ in range(self.choose.randint(1, 4)):
            count, size = self.choose.randint(1, 5), self.choose.choice(SIZES)
            entry = an_entry(known.index, known.offset, count, size)
            for store in self.both(log):
                store.append(entry, memoryview(bytearray(a_batch(known.offset, size))), Offset(known.segment))
            known.staged.append(known.offset)
            known.index += 1
            known.offset += count

    def append_without_offsets(self, log: LogId) -> None:
        known = self.known[log]
        entry = replace(an_entry(known.index, known.offset, 0, 7), kind=EntryKind.MEMBERSHIP)
        for store in self.both(log):
            store.append(entry, b"members", Offset(known.segment))
        known.index += 1

    def append_with_payload(self, log: LogId) -> None:
        known = self.known[log]
        size, payload = self.choose.choice(SIZES), self.choose.randbytes(self.choose.choice([1, 5000]))
        entry = an_entry(known.index, known.offset, 1, size)
        for store in self.both(log):
            store.append(entry, memoryview(bytearray(a_batch(known.offset, size))), Offset(known.segment), payload)
        known.staged.append(known.offset)
        known.index += 1
        known.offset += 1

    def append_without_entry(self, log: LogId) -> None:
        known = self.known[log]
        size = self.choose.choice(SIZES)
        stored = StoredBatch(Offset(known.offset), Offset(known.offset + 1), size, Millis(7))
        for store in self.both(log):
            store.append_batch(stored, a_batch(known.offset, size), Offset(known.segment))
        known.staged.append(known.offset)
        known.offset += 2

    def roll(self, log: LogId) -> None:
        self.known[log].segment = self.known[log].offset

    def truncate(self, log: LogId) -> None:
        known = self.known[log]
        bases = known.flushed + known.staged
        offset = self.choose.choice(bases[len(bases) // 2 :]) if bases else known.offset
        index = max(1, known.index - len([base for base in bases if base >= offset]))
        for store in self.both(log):
            store.truncate_from(RaftIndex(index), Offset(offset))
        known.flushed = [base for base in known.flushed if base < offset]
        known.staged = [base for base in known.staged if base < offset]
        known.index, known.offset = index, offset
        known.segment = min(known.segment, offset)

    def drop_before(self, log: LogId) -> None:
        known = self.known[log]
        known.start = self.choose.randint(known.start, (known.start + known.offset + 1) // 2)
        for store in self.both(log):
            store.drop_before(RaftIndex(max(1, known.index - 9)), Offset(known.start), [])

    def drop_segments(self, log: LogId) -> None:
        known = self.known[log]
        for store in self.both(log):
            store.drop_before(RaftIndex(known.index), Offset(known.offset), [Offset(known.segment)])
        known.start = known.segment = known.offset
        known.flushed, known.staged = [], []

    def rewrite(self, log: LogId) -> None:
        known = self.known[log]
        bases = self.choose.sample(known.flushed, self.choose.randint(0, len(known.flushed)))
        last = {batch.base_offset: batch.last_offset for batch in self.memory.open(log).batches(Offset(0))}
        changes = []
        for base in sorted(bases):
            new = None if self.choose.random() < 0.3 else a_batch(base, self.choose.choice(SIZES), 1)
            changes.append(Rewrite(Offset(base), last.get(Offset(base), Offset(base)), Millis(5), new))
        for store in self.both(log):
            store.rewrite(changes, Offset(0))

    def add_time(self, log: LogId) -> None:
        offset, by = self.known[log].offset, self.choose.randint(0, 50)
        for store in self.both(log):
            store.add_time_index(Millis(1_000_000 + offset * 100 + by), Offset(offset))

    def put_state(self, log: LogId) -> None:
        name, value = self.choose.choice(NAMES), self.choose.randbytes(3)
        for store in self.both(log):
            store.put_state(name, value)

    def delete_state(self, log: LogId) -> None:
        name = self.choose.choice(NAMES)
        for store in self.both(log):
            store.delete_state(name)

    def delete_states(self, log: LogId) -> None:
        start, end = self.choose.choices(NAMES, k=2)
        for store in self.both(log):
            store.delete_states(start, end)

    def drop(self, log: LogId) -> None:
        self.flush(log)
        self.memory.drop(log)
        self.disk.drop(log)
        self.known[log] = _Known()
        self.flush(log)

    def flush(self, _: LogId) -> None:
        self.memory.flush()
        self.disk.flush()
        for known in self.known.values():
            known.flushed += known.staged
            known.staged = []
        self.written = deepcopy(self.known)

    def bad_disk(self, _: LogId) -> None:
        owner, error = self.choose.choice([(ValueLog, OSError), (Database, StorageError)])
        if self.disk.has_staged():
            with patch.object(owner, "write", side_effect=error("refused")), pytest.raises(StorageError):
                self.disk.flush()
            self.memory._staged.clear()  # the same, in memory
            self.known = deepcopy(self.written)

    def restart(self, log: LogId) -> None:
        self.flush(log)
        self.disk.close()
        self.disk = RocksStore(self.directory, max_open_files=2)
        if self.choose.random() < 0.5:  # a partition that rolls otherwise than before
            self.known[log].segment = self.choose.randint(0, self.known[log].segment)

    # -- what is asked ---------------------------------------------------------------------------------------------
    def check(self) -> None:
        assert self.memory.has_staged() == self.disk.has_staged()
        assert set(self.memory.logs()) <= set(self.disk.logs())
        for log, known in self.known.items():
            memory, disk = (answers(store, known.offset) for store in self.both(log))
            for question, answer in memory.items():
                assert disk[question] == answer, f"{question} after {self.done[-12:]}"


def answers(store: PartitionStore, end: int) -> dict[str, Any]:
    offsets = sorted({0, end // 3, end // 2, max(end - 1, 0), end, end + 1})
    entries = list(store.entries(RaftIndex(0)))
    return {
        "first entry": store.first_entry(),
        "last entry": store.last_entry(),
        "entries": entries,
        "later entries": list(store.entries(RaftIndex(3))),
        "full entries": list(store.full_entries(RaftIndex(2))),
        "payloads": [store.payload(entry.index) for entry in entries],
        "state": store.state(b"ab"),
        "states": [list(store.states(b"")), list(store.states(b"a"))],
        "range of all states": store.state_range(b"", b"z", 100, 1000),
        "range of few states": store.state_range(b"a\x00", b"ab", 1, 1000),
        "range of few bytes": store.state_range(b"a", b"z", 2, 4),
        "range of nothing": store.state_range(b"b", b"a", 2, 4),
        "size": store.size(),
        "batches": [list(store.batches(Offset(offset))) for offset in offsets],
        "content": [_content(store, offset, limit, END) for offset in offsets for limit in (0, 5000, 1 << 20)],
        "content up to": [_content(store, offset, 1 << 20, end // 2) for offset in offsets],
        "times": [store.time_index(Millis(1_000_000 + time * 100)) for time in range(0, end + 2, 1 + end // 20)],
    }


def _content(store: PartitionStore, offset: int, limit: int, end: int) -> tuple[bytes, int, int]:
    run = store.read(Offset(offset), limit, Offset(end))
    return b"".join(run.buffers), run.size, run.next_offset


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_stores_on_disk_and_in_memory_answer_alike(tmp_path: Path, seed: int) -> None:
    twins = Twins(str(tmp_path), seed)
    for step in range(STEPS):
        twins.step()
        if step % 3 == 0:
            twins.check()
    twins.flush(LOG)
    twins.check()
    twins.disk.close()
