"""Receipts against a simple model: whatever happens in whatever order, no record is lost, and each is with one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kompat.errors import KafkaError
from kompat.share.machine import claims
from kompat.share.machine.acquisition import AcquisitionState
from kompat.share.machine.claims import RecordAcknowledgement
from kompat.share.machine.messages import AckType, AcquireMode, Found, RecordState, StateBatch, Update, Want
from kompat.share.machine.passed import MOST_RUNS, Passed
from kompat.share.machine.settings import ShareSettings
from kompat.types import Millis, Offset

RECORDS = 12
SETTINGS = ShareSettings(
    lock_ms=100, delivery_limit=3, receipt_backoff_ms=10, max_backoff_ms=40, has_receipt_dead_letters=True
)
KINDS = (AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW)
AVAILABLE, HELD, ACCEPTED, DEAD = "available", "held", "accepted", "dead"


@dataclass
class Entry:
    state: str = AVAILABLE
    deliveries: int = 0
    lock: str = ""
    until: int = 0
    persisted: tuple[str, int] = (AVAILABLE, 0)


class Receipts(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.now = 1
        self.machine = AcquisitionState(Offset(0))
        self.model = [Entry() for _ in range(RECORDS)]
        self.receipts: list[RecordAcknowledgement] = []
        self.locks = 0
        self.stored: dict[int, StateBatch] = {}
        self.start = 0
        self.forgotten = 0

    # -- what is done ----------------------------------------------------------------------------------------------
    @rule(count=st.integers(1, 5))
    def acquire(self, count: int) -> None:
        offset = self.machine.next_offset(SETTINGS, Millis(self.now))
        if offset is None or offset >= RECORDS:
            assert not [e for e in self.model if e.state == AVAILABLE and e.until <= self.now]
            return
        self.locks += 1
        lock = f"receipt-{self.locks}"
        found = Found(offset, Offset(RECORDS), [offset], [RECORDS - 1], [])
        want = Want(max_records=count, batch_size=1, mode=AcquireMode.RECORD_LIMIT)
        acquired = self.machine.acquire(lock, found, want, SETTINGS, Millis(self.now))
        for span in acquired.spans:
            for each in range(span.first, span.last + 1):
                entry = self.model[each]
                assert entry.state == AVAILABLE, f"{each} is {entry}"
                assert entry.until <= self.now
                entry.state, entry.lock, entry.until = HELD, lock, self.now + SETTINGS.lock_ms
                entry.deliveries += 1
                assert span.deliveries == entry.deliveries
                self.receipts.append(RecordAcknowledgement(each, lock, entry.deliveries, AckType.ACCEPT))

    @precondition(lambda self: self.receipts)
    @rule(data=st.data(), kind=st.sampled_from(KINDS), wait=st.sampled_from([None, None, 0, 500]))
    def settle(self, data: st.DataObject, kind: AckType, wait: int | None) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.receipts), min_size=1, max_size=4, unique_by=lambda s: s[0]))
        wait = wait if kind in (AckType.RELEASE, AckType.RENEW) else None
        acks = [each._replace(kind=kind, wait_ms=wait) for each in chosen]
        verdicts = [self._verdict(each) for each in acks]
        if None in verdicts:
            before = repr(self.machine.runs())
            with pytest.raises(KafkaError):
                claims.acknowledge(self.machine, acks, SETTINGS, Millis(self.now))
            assert repr(self.machine.runs()) == before  # all of it, or nothing
            return
        outcome = claims.acknowledge(self.machine, acks, SETTINGS, Millis(self.now))
        self._persist(outcome.update)
        dead = {offset for each in outcome.dead for offset in range(each.first, each.last + 1)}
        for each, changes in zip(acks, verdicts, strict=True):
            if changes:
                self._apply(each, is_dead=each.offset in dead)

    def _verdict(self, acks: RecordAcknowledgement) -> bool | None:
        """Whether it changes anything; None: it does not count."""
        entry = self.model[acks.offset]
        if entry.state == HELD:
            return True if entry.lock == acks.member else None
        if entry.state == AVAILABLE:
            return True if entry.deliveries <= acks.deliveries else None
        if acks.offset < self.forgotten:  # only that it is done with is known
            return False if acks.kind is AckType.ACCEPT else None
        same = AckType.ACCEPT if entry.state == ACCEPTED else AckType.REJECT
        return False if acks.kind is same else None

    def _apply(self, acks: RecordAcknowledgement, *, is_dead: bool) -> None:
        entry = self.model[acks.offset]
        entry.deliveries = max(entry.deliveries, acks.deliveries)
        wait = acks.wait_ms
        if acks.kind is AckType.RENEW:
            entry.state, entry.lock = HELD, acks.member
            entry.until = self.now + (SETTINGS.lock_ms if wait is None else wait)
            return
        assert is_dead is (
            acks.kind is AckType.REJECT
            or (acks.kind is AckType.RELEASE and entry.deliveries >= SETTINGS.delivery_limit)
        )
        entry.state = ACCEPTED if acks.kind is AckType.ACCEPT else DEAD if is_dead else AVAILABLE
        backoff = SETTINGS.of_receipts().backoff(entry.deliveries) if wait is None else wait
        entry.until = self.now + backoff if entry.state == AVAILABLE else 0
        entry.persisted = entry.state, entry.deliveries

    @rule(ms=st.sampled_from([1, 30, 101, 600]))
    def pass_time(self, ms: int) -> None:
        self.now += ms
        outcome = self.machine.tick(SETTINGS, Millis(self.now))
        self._persist(outcome.update)
        for entry in self.model:
            if entry.until and entry.until <= self.now:
                entry.until = 0
                if entry.state == HELD:
                    entry.state = DEAD if entry.deliveries >= SETTINGS.delivery_limit else AVAILABLE
                    entry.persisted = entry.state, entry.deliveries

    @rule()
    def write_letters(self) -> None:
        for dead in self.machine.archiving(SETTINGS):
            self._persist(self.machine.finish_archiving(dead.first, dead.last))

    @rule()
    def crash(self) -> None:
        """What was held is not held any more; receipts are still with their holders."""
        self.machine = AcquisitionState(Offset(self.start), list(self.stored.values()))
        self.forgotten = self.start
        for entry in self.model:
            entry.state, entry.deliveries = entry.persisted
            entry.lock, entry.until = "", 0

    def _persist(self, update: Update | None) -> None:
        if update is None:
            return
        self.start = max(self.start, update.start_offset)
        for first, last, state, deliveries in update.batches:
            for offset in range(first, last + 1):
                self.stored[offset] = StateBatch(offset, offset, state, deliveries)
        self.stored = {offset: each for offset, each in self.stored.items() if offset >= self.start}

    # -- what holds ------------------------------------------------------------------------------------------------
    @invariant()
    def every_record_is_somewhere(self) -> None:
        if not hasattr(self, "machine"):
            return
        for offset, entry in enumerate(self.model):
            run = self.machine.at(offset)
            if offset < self.machine.start_offset:
                assert entry.state in (ACCEPTED, DEAD), f"{offset} is lost: {entry}"
            elif run is None:
                assert (entry.state, entry.deliveries) == (AVAILABLE, 0)
            elif entry.state == HELD:
                assert (run.state, run.member, run.deliveries) == (RecordState.ACQUIRED, entry.lock, entry.deliveries)
            elif entry.state == AVAILABLE:
                assert (run.state, run.deliveries) == (RecordState.AVAILABLE, entry.deliveries)
            elif entry.state == ACCEPTED:
                assert run.state is RecordState.ACKNOWLEDGED
            else:
                assert run.state in (RecordState.ARCHIVING, RecordState.ARCHIVED)


TestReceipts = Receipts.TestCase
TestReceipts.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_words_about_records_that_nobody_was_given_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MOST_RUNS", 10)
    machine = AcquisitionState(Offset(0))
    acks = [RecordAcknowledgement(2 * number + 1, "forged", 1, AckType.ACCEPT) for number in range(20)]
    for each in acks[:10]:
        claims.acknowledge(machine, [each], SETTINGS, Millis(1))

    with pytest.raises(KafkaError, match="too much in mind"):
        claims.acknowledge(machine, [acks[10]], SETTINGS, Millis(1))

    assert machine.fragments == 10
    assert claims.acknowledge(machine, [acks[0]], SETTINGS, Millis(1)).update is None  # it is known, and no news


@pytest.mark.parametrize(("first", "then"), [(AckType.ACCEPT, AckType.REJECT), (AckType.REJECT, AckType.ACCEPT)])
def test_of_two_words_about_one_delivery_only_the_first_counts_also_when_the_start_has_passed_it(
    first: AckType, then: AckType
) -> None:
    machine = AcquisitionState(Offset(0))
    ack = RecordAcknowledgement(0, "lock", 1, first)
    settings = replace(SETTINGS, has_dead_letters=False)
    claims.acknowledge(machine, [ack], settings, Millis(1))
    assert machine.start_offset == 1

    with pytest.raises(KafkaError, match="was accepted" if first is AckType.ACCEPT else "was given up"):
        claims.acknowledge(machine, [ack._replace(kind=then)], settings, Millis(1))

    assert claims.acknowledge(machine, [ack], settings, Millis(1)).update is None  # the same again: an answer was lost


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=40), st.integers(0, 60))
def test_what_is_known_of_passed_records_is_right_or_nothing(ends: list[tuple[int, bool]], cut: int) -> None:
    passed, model = Passed(), dict[int, bool]()
    for size, is_accepted in ends:
        passed.add(len(model), len(model) + size - 1, is_accepted=is_accepted)
        model |= {len(model) + each: is_accepted for each in range(size)}
    passed.cut(cut)
    assert [passed.was_accepted(offset) for offset in range(130)] == [
        model.get(offset) if offset < cut else None for offset in range(130)
    ]


def test_only_the_newest_passed_records_are_remembered() -> None:
    passed = Passed()
    for offset in range(3 * MOST_RUNS):
        passed.add(offset, offset, is_accepted=offset % 2 == 0)

    assert passed.was_accepted(0) is None
    assert passed.was_accepted(3 * MOST_RUNS - 1) is False
    assert len(passed._firsts) <= MOST_RUNS
