"""Delays against a model, whatever happens in whatever order: each record is delivered once, never early, in order.

The model is a list of what the log should hold and a dict of what should wait. Refused turns and kills at any point
bring it back to what was committed.
"""

import copy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.delay import scheduler
from kompat.protocol.records import ControlType, Record
from kompat.types import Millis, Offset
from tests.extensions.support import ExtendedLog, delivered, message, run
from tests.log.on_disk import LogOnDisk, ModelOnDisk, few_runs

pytestmark = pytest.mark.slow

IDS = [None, None, "a", "b"]
WISHES = st.tuples(st.sampled_from([None, 0, 1, 5, 5, 20, 1000]), st.sampled_from(IDS))
BATCHES = st.lists(WISHES, min_size=1, max_size=5)
PRODUCERS = st.sampled_from([1, 2])
AT_ONCE = 3


@dataclass
class Waiting:
    due: int
    schedule_id: str | None
    value: str


@dataclass
class Expected:
    """What the model knows."""

    end: int = 0
    log: list[tuple[int, str, int | None]] = field(default_factory=list)  # offset, value, slot where it was delayed
    waiting: dict[int, Waiting] = field(default_factory=dict)  # by slot
    undecided: dict[int, list[tuple[int, Waiting | str]]] = field(
        default_factory=dict
    )  # by producer; text: an id to end
    sequences: dict[int, int] = field(default_factory=dict)

    def end_wait(self, schedule_id: str | None) -> None:
        if schedule_id is not None:
            self.waiting = {slot: each for slot, each in self.waiting.items() if each.schedule_id != schedule_id}


class DelayModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = Expected()
        self.committed = Expected()
        self.is_firing = False
        self.names = count()

    @initialize(codec=st.sampled_from([0, 4]), cache=st.sampled_from([0, 1 << 20]))
    def create(self, codec: int, cache: int) -> None:
        self.codec = codec
        self.log = self.new_log(cache)

    def new_log(self, cache: int) -> ExtendedLog:
        return ExtendedLog(cache=cache, segment_bytes=2000, retention_ms=-1)

    # -- producing -------------------------------------------------------------------------------------------------
    @rule(batch=BATCHES)
    def send(self, batch: list[tuple[int | None, str | None]]) -> None:
        expected, clock = self.now, self.log.now
        base, records = expected.end, self.records(batch)
        appended = self.log.stage_all(records, compression=self.codec)
        assert (appended.base_offset, appended.last_offset) == (base, base + len(batch) - 1)
        for slot, ((delay, schedule_id), record) in enumerate(zip(batch, records, strict=True), base):
            expected.end_wait(schedule_id)
            value = (record.value or b"").decode()
            if delay:
                expected.waiting[slot] = Waiting(clock + delay, schedule_id, value)
            else:
                expected.log.append((slot, value, None))
        expected.end += len(batch)

    @rule(producer=PRODUCERS, batch=BATCHES)
    def send_in_a_transaction(self, producer: int, batch: list[tuple[int | None, str | None]]) -> None:
        expected, clock = self.now, self.log.now
        base, records = expected.end, self.records(batch)
        sequence = expected.sequences.get(producer, 0)
        self.log.stage_all(
            records,
            compression=self.codec,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        undecided = expected.undecided.setdefault(producer, [])
        for slot, ((delay, schedule_id), record) in enumerate(zip(batch, records, strict=True), base):
            value = (record.value or b"").decode()
            if delay:
                undecided.append((slot, Waiting(clock + delay, schedule_id, value)))
            else:
                expected.log.append((slot, value, None))
                if schedule_id is not None:
                    undecided.append((slot, schedule_id))
        expected.sequences[producer] = sequence + len(batch)
        expected.end += len(batch)

    def records(self, batch: list[tuple[int | None, str | None]]) -> list[Record]:
        found = []
        for delay, schedule_id in batch:
            asked: dict[str, Any] = {} if delay is None else {"delay_ms": delay}
            if schedule_id is not None:
                asked["schedule_id"] = schedule_id
            found.append(message(f"r{next(self.names)}", now=self.log.now, **asked))
        return found

    @rule(producer=PRODUCERS, commits=st.booleans())
    def end_transaction(self, producer: int, commits: bool) -> None:
        self.end_turn()
        self.log.end_transaction(ControlType.COMMIT if commits else ControlType.ABORT, producer)
        expected = self.now
        for slot, each in expected.undecided.pop(producer, []) if commits else []:
            expected.end_wait(each if isinstance(each, str) else each.schedule_id)
            if isinstance(each, Waiting):
                expected.waiting[slot] = each
        expected.undecided.pop(producer, None)
        expected.end += 1
        self.committed = copy.deepcopy(expected)

    # -- time ------------------------------------------------------------------------------------------------------
    @rule(ms=st.sampled_from([1, 4, 5, 50, 990]))
    def wait(self, ms: int) -> None:
        self.log.clock.advance(ms)

    @precondition(lambda self: not self.is_firing)
    @rule()
    def deliver_some(self) -> None:
        """One append of what is due; it is not committed yet."""
        self.log.scheduler.fire(self.log.interceptor, self.log.now)
        due = sorted((w.due, slot) for slot, w in self.now.waiting.items() if w.due <= self.log.now)
        for due_time, slot in due[:AT_ONCE]:
            record = self.now.waiting.pop(slot)
            assert due_time <= self.log.now
            self.now.log.append((self.now.end, record.value, slot))
            self.now.end += 1
        self.is_firing = bool(due)

    @rule()
    def deliver_all(self) -> None:
        while True:
            self.end_turn()
            before = self.now.end
            self.deliver_some()
            if self.now.end == before:
                return

    # -- by hand ---------------------------------------------------------------------------------------------------
    @rule(choice=st.integers(0, 100), back=st.booleans())
    def cancel(self, choice: int, back: bool) -> None:
        slots = sorted(self.now.waiting) or [0]
        slot = slots[choice % len(slots)] if back else choice
        if slot in self.now.waiting:
            self.run(self.log.delays.cancel("topic", 0, Offset(slot)))
            del self.now.waiting[slot]
            self.committed = copy.deepcopy(self.now)
        else:
            with pytest.raises(KafkaError) as refused:
                self.run(self.log.delays.cancel("topic", 0, Offset(slot)))
            assert refused.value.code in (ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.INVALID_REQUEST)

    @precondition(lambda self: self.now.waiting)
    @rule(choice=st.integers(0, 100), by=st.sampled_from([1, 3, 500]))
    def put_off(self, choice: int, by: int) -> None:
        slots = sorted(self.now.waiting)
        slot = slots[choice % len(slots)]
        due = self.log.now + by
        self.run(self.log.delays.reschedule("topic", 0, Offset(slot), Millis(due)))
        self.now.waiting[slot].due = due
        self.committed = copy.deepcopy(self.now)

    def run(self, work: Any) -> None:
        try:
            self.log.run(work)
        finally:
            self.end_turn()

    # -- turns and crashes -----------------------------------------------------------------------------------------
    @rule()
    def end_turn(self) -> None:
        self.log.commit.end_turn()
        self.committed = copy.deepcopy(self.now)
        self.is_firing = False

    @rule()
    def end_turn_on_a_full_disk(self) -> None:
        self.log.store.is_full = True
        self.log.commit.end_turn()
        self.log.store.is_full = False
        self.forget()

    @rule()
    def kill(self) -> None:
        self.log.kill()
        self.forget()

    @rule()
    def restart(self) -> None:
        self.end_turn()
        self.log.restart()

    def forget(self) -> None:
        self.now = copy.deepcopy(self.committed)
        self.is_firing = False

    # -- what holds ------------------------------------------------------------------------------------------------
    @invariant()
    def the_log_holds_what_it_should_and_each_record_once(self) -> None:
        found = []
        for record in self.log.records():
            if record.key in (b"\0\0\0\0", b"\0\0\0\1"):
                continue  # a transaction's end
            slot = delivered(record)[0] if any(n == "kompat-original-offset" for n, _ in record.headers) else None
            found.append((record.offset, (record.value or b"").decode(), slot))
        assert found == self.committed.log
        assert len({value for _, value, _ in found}) == len(found)

    @invariant()
    def what_waits_is_what_should(self) -> None:
        expected = sorted((w.due, slot, w.value) for slot, w in self.now.waiting.items())
        page = run(self.log.delays.list("topic", limit=1000))
        assert [(s.due, s.slot, (s.record.value or b"").decode()) for s in page.items] == expected
        statistics = self.log.delay_statistics()
        assert statistics.waiting == len(expected)
        assert statistics.undecided == sum(map(len, self.now.undecided.values()))
        assert (statistics.size == 0) == (not statistics.waiting and not statistics.undecided)
        if expected:
            assert statistics.next_due is not None
            assert statistics.next_due <= expected[0][0]

    @invariant()
    def schedule_ids_lead_to_their_records(self) -> None:
        for schedule_id in ("a", "b"):
            slots = [slot for slot, w in self.now.waiting.items() if w.schedule_id == schedule_id]
            found = self.log.find_by_schedule_id(schedule_id)
            assert ([found.slot] if found else []) == slots


class DelaysOnDisk(LogOnDisk, ExtendedLog):
    """Delayed records on the store that brokers have."""


class DelayModelOnDisk(ModelOnDisk, DelayModel):
    def new_log(self, cache: int) -> ExtendedLog:
        return DelaysOnDisk(cache=cache, segment_bytes=2000, retention_ms=-1)


@pytest.fixture(autouse=True, scope="module")
def few_at_once() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "AT_ONCE", AT_ONCE)
        yield


DelayModel.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
DelayModelOnDisk.TestCase.settings = few_runs(steps=25)
TestDelays = DelayModel.TestCase
TestDelaysOnDisk = DelayModelOnDisk.TestCase
