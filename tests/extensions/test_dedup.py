"""Message ids: a record that repeats one within the window is dropped."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kompat.extensions import dedup
from kompat.protocol.records import ControlType
from tests.extensions.support import ExtendedLog, message
from tests.log.support import NOW

WINDOW = 1000


@pytest.fixture
def log() -> ExtendedLog:
    return ExtendedLog(kompat_dedup_window_ms=WINDOW)


def test_a_repeated_id_is_dropped_and_its_offset_stays_empty(log: ExtendedLog) -> None:
    assert [log.send(v, msg_id="m") for v in ("first", "again")] == [0, 1]
    log.send("other", msg_id="n")

    assert [(r.offset, r.value) for r in log.records()] == [(0, b"first"), (2, b"other")]


def test_an_id_may_be_used_again_after_the_window(log: ExtendedLog) -> None:
    log.send("first", msg_id="m")
    log.clock.advance(WINDOW - 1)
    log.send("dropped", msg_id="m")
    log.clock.advance(1)
    log.send("second", msg_id="m")
    log.clock.advance(WINDOW - 1)
    log.send("dropped", msg_id="m")

    assert log.texts() == ["first", "second"]


def test_within_a_batch_the_first_of_an_id_counts(log: ExtendedLog) -> None:
    log.send_all([message(v, now=NOW, msg_id="m") for v in ("a", "b")] + [message("c", now=NOW)])

    assert log.texts() == ["a", "c"]


def test_ids_are_remembered_through_a_kill(log: ExtendedLog) -> None:
    log.send("first", msg_id="m")
    log.kill()
    log.send("again", msg_id="m")

    assert log.texts() == ["first"]


def test_an_id_that_the_disk_refused_was_not_seen(log: ExtendedLog) -> None:
    log.stage_all([message("refused", now=NOW, msg_id="m")])
    log.store.is_full = True
    log.commit.end_turn()
    log.store.is_full = False

    log.send("retried", msg_id="m")

    assert log.texts() == ["retried"]


def test_a_window_of_zero_drops_nothing() -> None:
    log = ExtendedLog(kompat_dedup_window_ms=0)
    log.send("a", msg_id="m")
    log.send("b", msg_id="m")

    assert log.texts() == ["a", "b"]


def test_a_repeated_delay_waits_once(log: ExtendedLog) -> None:
    log.send("once", msg_id="m", delay_ms=10)
    log.send("twice", msg_id="m", delay_ms=10)
    log.pass_time(100)

    assert log.texts() == ["once"]


def test_an_aborted_transactions_ids_were_never_seen(log: ExtendedLog) -> None:
    def send(value: str, producer: int, sequence: int) -> None:
        log.send_all(
            [message(value, now=NOW, msg_id="m")],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )

    send("aborted", 7, 0)
    send("repeated within", 7, 1)
    log.end_transaction(ControlType.ABORT, 7)
    send("committed", 7, 2)
    log.end_transaction(ControlType.COMMIT, 7)
    send("repeated after", 8, 0)
    log.end_transaction(ControlType.COMMIT, 8)
    log.send("repeated outside", msg_id="m")

    texts = [r.value for r in log.records() if r.key == b"k"]
    assert texts == [b"aborted", b"committed"]


def test_old_ids_are_forgotten_as_new_ones_come(log: ExtendedLog) -> None:
    for i in range(50):
        log.send("v", msg_id=f"old{i}")
    log.clock.advance(WINDOW)
    for i in range(30):
        log.send("v", msg_id=f"new{i}")

    names = [name for name, _ in log.partition.store.states(b"m/")]
    assert sum(name.startswith(dedup.ID) for name in names) == 30
    assert len(names) == 2 * 30 + 1


class Ids(RuleBasedStateMachine):
    """Against a dict of when each id was last let through."""

    @initialize()
    def create(self) -> None:
        self.log = ExtendedLog(kompat_dedup_window_ms=WINDOW)
        self.seen: dict[str, int] = {}
        self.expected: list[str] = []
        self.count = 0

    @rule(ids=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4))
    def send(self, ids: list[str]) -> None:
        records = []
        for each in ids:
            self.count += 1
            records.append(message(str(self.count), now=NOW, msg_id=each))
            if self.log.now - self.seen.get(each, -WINDOW) >= WINDOW:
                self.seen[each] = self.log.now
                self.expected.append(str(self.count))
        self.log.send_all(records)
        assert self.log.texts() == self.expected

    @rule(ms=st.sampled_from([1, 300, 999, 1000]))
    def wait(self, ms: int) -> None:
        self.log.clock.advance(ms)

    @rule()
    def kill(self) -> None:
        self.log.kill()


Ids.TestCase.settings = settings(
    max_examples=50, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestIds = Ids.TestCase
