"""A random walk through all that can happen to a share partition, with the model beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.share.machine.acquisition import AcquisitionState
from kompat.share.machine.messages import (
    AckBatch,
    AckType,
    Acquired,
    AcquireMode,
    Dead,
    Found,
    Span,
    StateBatch,
    Update,
    Want,
)
from kompat.share.machine.runs import Run
from kompat.share.machine.settings import ShareSettings
from kompat.share.machine.state import Fence, ShareStateMachine
from kompat.share.records import ShareCodec, ShareKey, ShareRecord
from kompat.types import LeaderEpoch, Millis, Offset
from tests.share.model import ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, DONE, Model

KEY = ShareKey("group", UUID(int=5), 3)
EPOCH = LeaderEpoch(0)
MEMBERS = ("alice", "bob", "carol")
KINDS = tuple(AckType)
STEPS = 250


class Walk:
    """A share partition, the log of its state, and the model, through whatever a random walk makes of them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.settings = ShareSettings(
            lock_ms=1000,
            delivery_limit=self.random.randint(2, 6),
            max_locks=self.random.randint(3, 40),
            backoff_ms=50,
            max_backoff_ms=400,
            has_dead_letters=self.random.random() < 0.5,
        )
        self.now = Millis(1_000_000)
        self.model = Model(self.settings)
        self.snapshots = self.random.randint(0, 4)
        self.log: list[tuple[bytes | None, bytes | None]] = []  # of __share_group_state
        self.store = ShareStateMachine(self.snapshots)
        self.write(self.store.initialize(KEY, Offset(0), leader_epoch=EPOCH, state_epoch=0, now=self.now).records)
        self.partition = AcquisitionState(Offset(0))
        self.redeliveries = 0

    def step(self) -> None:
        weights = {
            self.append: 3,
            self.acquire: 6,
            self.acknowledge: 6,
            self.acknowledge_what_is_not_held: 2,
            self.leave: 1,
            self.time_passes: 3,
            self.bury: 1,
            self.log_starts_later: 0.1,
            self.crash: 0.3,
            self.snapshot: 0.2,
        }
        (what,) = self.random.choices(list(weights), list(weights.values()))
        what()
        self.check_records()
        self.check_books()
        self.check_store()

    def finish(self) -> None:
        """In the end everything is done with, if only somebody goes on."""
        self.now = Millis(self.now + 100_000)
        for _ in range(self.model.end * 8):
            self.time_passes()
            self.bury()
            self.acquire()
            for member in MEMBERS:
                held = [o for o in self.model.held(member) if o >= self.partition.start_offset]
                batches = [AckBatch(first, last, [AckType.ACCEPT]) for first, last in runs_of(held)]
                self.persist(self.partition.acknowledge(member, batches, self.settings, self.now).update)
                for o in held:
                    self.model.acknowledge(o, AckType.ACCEPT, self.now)
            if self.partition.start_offset >= self.model.end:
                break
        assert self.partition.start_offset >= self.model.end
        assert not self.partition.runs()

    # -- what a service does -------------------------------------------------------------------------------------------
    def write(self, records: Iterable[ShareRecord]) -> None:
        codec = ShareCodec()
        for record in records:
            self.log.append(codec.encode(record))
            self.store.apply(record)

    def persist(self, update: Update | None) -> None:
        if update is not None:
            self.write(self.store.write(KEY, update, Fence(EPOCH, 0), self.now).records)

    def read(self, first: int, batches: int) -> Found:
        """As a log does: whole batches from the one that holds the offset."""
        found = [Span(*batch) for batch in self.model.batches if batch[1] >= first][:batches]
        is_all = not found or found[-1].last == self.model.batches[-1][1]
        end = self.model.end if is_all else found[-1].last + 1
        holes = [h for h in range(first, end) if h in self.model.holes]
        spans = [Span(*hole) for hole in runs_of(holes)]
        return Found(Offset(first), Offset(end), [b.first for b in found], [b.last for b in found], spans)

    # -- what happens --------------------------------------------------------------------------------------------------
    def append(self) -> None:
        self.model.append(self.random.randint(1, 8), self.random.choice((0, 0, 0, 1, 2)))

    def acquire(self) -> None:
        member, mode = self.random.choice(MEMBERS), self.random.choice(tuple(AcquireMode))
        want = Want(max_records=self.random.randint(1, 12), batch_size=self.random.randint(1, 10), mode=mode)
        offset = self.partition.next_offset(self.settings, self.now)
        expected = [o for o in self.model.available(self.now) if o >= self.partition.start_offset]
        if offset is None:
            assert self.partition.in_flight >= self.settings.max_locks
            assert not any(self.model.entries[o].deliveries for o in expected)
            return
        if offset >= self.model.end:
            assert not expected
            return
        if self.partition.in_flight < self.settings.max_locks:
            assert offset == expected[0]
        found = self.read(offset, self.random.randint(1, 4))
        acquired = self.partition.acquire(member, found, want, self.settings, self.now)
        self.check_acquired(member, acquired, want)
        self.pass_holes()
        self.persist(acquired.update)
        if not acquired.spans:
            assert self.partition.next_offset(self.settings, self.now) != offset, "no progress"

    def check_acquired(self, member: str, acquired: Acquired, want: Want) -> None:
        offsets = [o for first, last, _ in acquired.spans for o in range(first, last + 1)]
        assert offsets == sorted(set(offsets))
        assert len(offsets) == acquired.count
        for first, last, deliveries in acquired.spans:
            self.redeliveries += deliveries > 1
            for o in range(first, last + 1):
                assert self.model.acquire(member, o, self.now) == deliveries
        if want.mode is AcquireMode.RECORD_LIMIT:
            assert len(offsets) <= want.max_records

    def pass_holes(self) -> None:
        """Whoever comes by an offset without a record is done with it."""
        for hole in self.model.holes:
            run = self.run_at(hole)
            if hole < self.partition.start_offset or (run is not None and run.state is ARCHIVED):
                self.model.entries[hole].state = ARCHIVED

    def acknowledge(self) -> None:
        member = self.random.choice(MEMBERS)
        held = [o for o in self.model.held(member) if o >= self.partition.start_offset]
        if not held:
            return
        chosen = (
            held if self.random.random() < 0.4 else sorted(self.random.sample(held, self.random.randint(1, len(held))))
        )
        batches = []
        for first, last in runs_of(chosen):
            size = 1 if self.random.random() < 0.5 else last - first + 1
            batches.append(AckBatch(first, last, self.random.choices(KINDS, (1, 4, 4, 2, 1), k=size)))
        outcome = self.partition.acknowledge(member, batches, self.settings, self.now)
        for batch in batches:
            for first, last, kind in batch.parts():
                for o in range(first, last + 1):
                    self.model.acknowledge(o, AckType(kind), self.now)
        self.persist(outcome.update)
        self.check_dead(outcome.dead)

    def acknowledge_what_is_not_held(self) -> None:
        member, kind = self.random.choice(MEMBERS), self.random.choice(KINDS)
        first = self.partition.start_offset + self.random.randint(-2, 20)
        last = first + self.random.randint(0, 9)
        offsets = [o for o in range(first, last + 1) if o >= self.partition.start_offset]
        if not offsets or set(self.model.held(member)).issuperset(offsets):
            return
        before = [repr(run) for run in self.partition.runs()]
        with pytest.raises(KafkaError) as raised:
            self.partition.acknowledge(member, [AckBatch(first, last, [kind])], self.settings, self.now)
        assert raised.value.code in (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
        assert [repr(run) for run in self.partition.runs()] == before

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        outcome = self.partition.release(member, self.settings)
        self.model.release(member)
        self.persist(outcome.update)
        self.check_dead(outcome.dead)

    def time_passes(self) -> None:
        self.now = Millis(self.now + self.random.choice((1, 50, 100, 400, 1000, 1001)))
        waiting = [e.until for o in self.model.live if (e := self.model.entries[o]).until]
        assert self.partition.next_deadline() == (min(waiting) if waiting else None)
        outcome = self.partition.tick(self.settings, self.now)
        self.model.tick(self.now)
        self.persist(outcome.update)
        self.check_dead(outcome.dead)

    def check_dead(self, dead: Sequence[Dead]) -> None:
        for each in dead:
            for o in range(each.first, each.last + 1):
                assert self.model.entries[o].state is ARCHIVING
                assert self.model.entries[o].deliveries == each.deliveries

    def bury(self) -> None:
        for dead in self.partition.archiving(self.settings)[:1]:
            self.persist(self.partition.finish_archiving(dead.first, dead.last))
            for o in range(dead.first, dead.last + 1):
                self.model.entries[o].persist(ARCHIVED)

    def log_starts_later(self) -> None:
        self.model.log_start = self.random.randint(self.model.log_start, self.model.end)
        self.partition.move_start(Offset(self.model.log_start))

    def crash(self) -> None:
        self.store = ShareStateMachine(self.snapshots)
        codec = ShareCodec()
        for key, value in self.log:
            record = codec.decode(key, value)
            assert record is not None
            self.store.apply(record)
        stored = self.store.read(KEY).reply
        assert stored is not None
        self.partition = AcquisitionState(stored.start_offset, stored.batches)
        self.partition.move_start(Offset(self.model.log_start))
        self.model.crash()
        self.pass_holes()

    def snapshot(self) -> None:
        """The runtime may keep the machine's state beside the log, and the log from there on."""
        codec = ShareCodec()
        self.log = [codec.encode(record) for record in self.store.snapshot()]

    # -- what always holds ---------------------------------------------------------------------------------------------
    def run_at(self, offset: int) -> Run | None:
        return next((run for run in self.partition.runs() if run.first <= offset <= run.last), None)

    def check_records(self) -> None:
        """Every record is where the model says."""
        runs: dict[int, Any] = {o: run for run in self.partition.runs() for o in range(run.first, run.last + 1)}
        for o in self.model.live:
            entry, run = self.model.entries[o], runs.get(o)
            if o < self.partition.start_offset:
                assert entry.state in DONE, f"{o} is passed, but it is {entry}"
            elif run is None:
                assert (entry.state, entry.deliveries) == (AVAILABLE, 0), f"{o} is {entry}"
            else:
                assert run.state is entry.state, f"{o} is {entry}, not {run}"
                if run.state not in DONE:
                    assert (run.deliveries, run.member, run.until) == (entry.deliveries, entry.member, entry.until)

    def check_books(self) -> None:
        runs = self.partition.runs()
        assert all(a.last < b.first for a, b in pairwise(runs))
        still_open = (ACQUIRED, AVAILABLE, ARCHIVING)
        assert self.partition.in_flight == sum(run.size for run in runs if run.state in still_open)
        assert self.partition.complete_count == sum(run.size for run in runs if run.state in DONE)
        assert not runs or runs[0].first > self.partition.start_offset or runs[0].state not in DONE

    def check_store(self) -> None:
        """What is persisted would bring it all back."""
        stored = self.store.read(KEY).reply
        assert stored is not None
        assert stored.start_offset <= self.partition.start_offset
        by_offset = {o: batch for batch in stored.batches for o in range(batch.first, batch.last + 1)}
        for o in self.model.live:
            if o >= stored.start_offset and o not in self.model.holes:
                found = by_offset.get(o, StateBatch(o, o, AVAILABLE, 0))
                assert (found.state, found.deliveries) == self.model.entries[o].persisted


def runs_of(offsets: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for o in offsets:
        if runs and runs[-1][1] == o - 1:
            runs[-1] = (runs[-1][0], o)
        else:
            runs.append((o, o))
    return runs
