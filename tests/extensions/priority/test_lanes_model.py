"""Lanes against a model, whatever happens in whatever order: each record comes once, by its class among those that wait then.

The model has a list of what the log should hold, and ten of what should wait. Refused turns and kills at any point bring it
back to what was committed.
"""

import copy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kompat.extensions.delay import scheduler
from kompat.extensions.priority import lane_interceptor, lane_release
from kompat.protocol.records import ControlType, Record
from tests.extensions.priority.support import LanesLog
from tests.extensions.support import delivered, message
from tests.log.on_disk import LogOnDisk, ModelOnDisk, few_runs

pytestmark = pytest.mark.slow

CLASSES = st.sampled_from([None, None, 0, 4, 8, 9])
DELAYS = st.sampled_from([None, None, None, 5, 50])
BATCHES = st.lists(st.tuples(CLASSES, DELAYS), min_size=1, max_size=6)
SAME = CLASSES.flatmap(lambda c: st.lists(st.just((c, None)), min_size=1, max_size=6))
PRODUCERS = st.sampled_from([1, 2])
AT_ONCE = 3
RELEASED = 2
Waiting = tuple[str, int]  # value and slot


@dataclass
class Expected:
    end: int = 0
    log: list[tuple[int, str, int | None]] = field(default_factory=list)  # offset, value, slot
    lanes: list[list[Waiting]] = field(default_factory=lambda: [[] for _ in range(10)])
    delayed: list[tuple[int, int, str, int]] = field(default_factory=list)  # due, slot, value, class
    undecided: dict[int, list[tuple[int, int | None, Waiting]]] = field(default_factory=dict)  # class, due
    sequences: dict[int, int] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return sum(map(len, self.lanes))

    def release(self, limit: int) -> None:
        """By class, and within a class by arrival."""
        for lane in reversed(self.lanes):
            while lane and limit:
                value, slot = lane.pop(0)
                self.log.append((self.end, value, slot))
                self.end += 1
                limit -= 1


class LaneModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = Expected()
        self.committed = Expected()
        self.is_on = True
        self.is_releasing = False
        self.is_awaited = False  # by a consumer that does not leave
        self.names = count()

    @initialize(codec=st.sampled_from([0, 4]), cache=st.sampled_from([0, 1 << 20]))
    def create(self, codec: int, cache: int) -> None:
        self.codec = codec
        self.log = self.new_log(cache)

    def new_log(self, cache: int) -> LanesLog:
        return LanesLog(cache=cache, **self.settings())

    def settings(self) -> dict[str, Any]:
        return {"segment_bytes": 2000, "retention_ms": -1, "kompat_priority_release_max_records": RELEASED}

    # -- producing -------------------------------------------------------------------------------------------------
    @rule(batch=BATCHES | SAME)
    def send(self, batch: list[tuple[int | None, int | None]]) -> None:
        expected = self.now
        base, records = expected.end, self.records(batch)
        assert self.log.stage_all(records, compression=self.codec).base_offset == base
        for slot, ((priority, delay), record) in enumerate(zip(batch, records, strict=True), base):
            self.take(4 if priority is None else priority, delay, ((record.value or b"").decode(), slot))
        expected.end += len(batch)

    def take(self, priority: int, delay: int | None, record: Waiting) -> None:
        value, slot = record
        if delay is not None:
            self.now.delayed.append((self.log.now + delay, slot, value, priority))
        elif self.is_on:
            self.now.lanes[priority].append(record)
        else:
            self.now.log.append((slot, value, None))

    @rule(producer=PRODUCERS, batch=BATCHES | SAME)
    def send_in_a_transaction(self, producer: int, batch: list[tuple[int | None, int | None]]) -> None:
        expected = self.now
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
        by_class = sorted(range(len(batch)), key=lambda i: -(4 if batch[i][0] is None else batch[i][0] or 0))
        for place in by_class:  # lanes of one batch: the order among classes does not matter, that within one does
            (priority, delay), record = batch[place], records[place]
            value, slot = (record.value or b"").decode(), base + place
            if self.is_on or delay is not None:
                due = None if delay is None else self.log.now + delay
                undecided.append((4 if priority is None else priority, due, (value, slot)))
            else:
                expected.log.append((slot, value, None))
        if not self.is_on:
            expected.log.sort()
        expected.sequences[producer] = sequence + len(batch)
        expected.end += len(batch)

    def records(self, batch: list[tuple[int | None, int | None]]) -> list[Record]:
        found = []
        for priority, delay in batch:
            asked: dict[str, Any] = {} if priority is None else {"priority": priority}
            if delay is not None:
                asked["delay_ms"] = delay
            found.append(message(f"r{next(self.names)}", now=self.log.now, **asked))
        return found

    @rule(producer=PRODUCERS, commits=st.booleans())
    def end_transaction(self, producer: int, commits: bool) -> None:
        self.end_turn()
        expected = self.now
        # The marker's turn ends in the call: what is staged before it is committed with it.
        ended = expected.undecided.pop(producer, [])
        for priority, due, (value, slot) in ended if commits else []:
            if due is None:
                expected.lanes[priority].append((value, slot))
            else:
                expected.delayed.append((due, slot, value, priority))
        expected.end += 1
        self.log.end_transaction(ControlType.COMMIT if commits else ControlType.ABORT, producer)
        self.turn_ended()
        if not self.is_on:
            self.empty()

    # -- time ------------------------------------------------------------------------------------------------------
    @rule(ms=st.sampled_from([1, 5, 50]))
    def wait(self, ms: int) -> None:
        self.log.clock.advance(ms)

    @rule()
    def deliver_some(self) -> None:
        """Let some of what is due wait in its lane, or come."""
        self.end_turn()
        self.log.scheduler.fire(self.log.interceptor, self.log.now)
        due = sorted(each for each in self.now.delayed if each[0] <= self.log.now)[:AT_ONCE]
        for each in due:
            _, slot, value, priority = each
            self.now.delayed.remove(each)
            if self.is_on:
                self.now.lanes[priority].append((value, slot))
            else:
                self.now.log.append((self.now.end, value, slot))
                self.now.end += 1
        self.end_turn()

    # -- asking ----------------------------------------------------------------------------------------------------
    @rule()
    def poll(self) -> None:
        """A fetch that is answered, and gone: one release, which is not committed yet."""
        self.log.ask("polls")
        self.log.leave("polls")
        self.release()

    @precondition(lambda self: self.is_on)
    @rule()
    def wait_at_the_end(self) -> None:
        self.is_awaited = True
        self.log.ask("waits")
        self.release()

    @rule()
    def leave(self) -> None:
        self.is_awaited = False
        self.log.leave("waits")

    def release(self) -> None:
        if self.is_on and not self.is_releasing and self.now.depth:
            self.now.release(RELEASED)
            self.is_releasing = True

    @rule()
    def settle(self) -> None:
        self.leave()
        self.end_turn()
        assert self.log.settle().error is None
        self.now.release(self.now.depth)
        self.committed = copy.deepcopy(self.now)

    # -- the setting -----------------------------------------------------------------------------------------------
    @precondition(lambda self: self.is_on)
    @rule()
    def turn_off(self) -> None:
        self.leave()
        self.end_turn()
        self.is_on = False
        self.log.turn("offset", **self.settings())
        self.empty()

    def empty(self) -> None:
        while self.log.depths:
            self.log.commit.end_turn()
        self.log.commit.end_turn()
        self.now.release(self.now.depth)
        self.committed = copy.deepcopy(self.now)

    @precondition(lambda self: not self.is_on)
    @rule()
    def turn_on(self) -> None:
        self.is_on = True
        self.log.turn("priority", **self.settings())

    # -- turns and crashes -----------------------------------------------------------------------------------------
    @rule()
    def end_turn(self) -> None:
        self.log.commit.end_turn()
        self.turn_ended()

    def turn_ended(self) -> None:
        self.committed = copy.deepcopy(self.now)
        self.is_releasing = False
        if self.is_awaited:
            self.release()

    @rule()
    def end_turn_on_a_full_disk(self) -> None:
        self.leave()
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
        self.leave()
        self.end_turn()
        self.log.restart()

    def forget(self) -> None:
        self.now = copy.deepcopy(self.committed)
        self.is_releasing = self.is_awaited = False

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
        statistics = self.log.lane_statistics()
        assert statistics.depths == [len(lane) for lane in self.now.lanes]
        undecided = [due for each in self.now.undecided.values() for _, due, _ in each]
        assert statistics.undecided == sum(due is None for due in undecided)
        assert (statistics.size == 0) == (not statistics.waiting and not statistics.undecided)
        assert self.log.delay_statistics().waiting == len(self.now.delayed)

    @invariant()
    def an_empty_lane_has_left_nothing_behind(self) -> None:
        if not self.now.depth and not self.now.undecided:
            names = [name for name, _ in self.log.interceptor.view.range(b"l/", b"l/r")]
            assert not names


class LanesOnDisk(LogOnDisk, LanesLog):
    """Lanes on the store that brokers have."""


class LaneModelOnDisk(ModelOnDisk, LaneModel):
    def new_log(self, cache: int) -> LanesLog:
        return LanesOnDisk(cache=cache, **self.settings())


@pytest.fixture(autouse=True, scope="module")
def few_at_once() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "AT_ONCE", AT_ONCE)
        patch.setattr(lane_release, "AT_ONCE", AT_ONCE)
        patch.setattr(lane_release, "KEPT_BYTES", 1500)  # some runs, but not all
        patch.setattr(lane_interceptor, "RUN_RECORDS", 4)
        yield


LaneModel.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
LaneModelOnDisk.TestCase.settings = few_runs(steps=25)
TestLanes = LaneModel.TestCase
TestLanesOnDisk = LaneModelOnDisk.TestCase
