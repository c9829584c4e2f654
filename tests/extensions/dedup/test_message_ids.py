"""Message ids: a record that repeats one within the window is dropped."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kompat.extensions.dedup import contested
from kompat.extensions.dedup import message_ids as dedup
from kompat.protocol.records import ControlType, iterate, read_header, split_batches
from tests.extensions.support import COMMITTED, ExtendedLog, message
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


def send_in_a_transaction(log: ExtendedLog, value: str, producer: int, sequence: int, **asked: object) -> None:
    log.send_all(
        [message(value, now=NOW, **{"msg_id": "m"} | asked)],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )


def test_an_aborted_transactions_ids_were_never_seen(log: ExtendedLog) -> None:
    send_in_a_transaction(log, "aborted", 7, 0)
    send_in_a_transaction(log, "repeated within", 7, 1)
    log.end_transaction(ControlType.ABORT, 7)
    send_in_a_transaction(log, "committed", 7, 2)
    log.end_transaction(ControlType.COMMIT, 7)
    send_in_a_transaction(log, "repeated after", 8, 0)
    log.end_transaction(ControlType.COMMIT, 8)
    log.send("repeated outside", msg_id="m")

    texts = [r.value for r in log.records() if r.key == b"k"]
    assert texts == [b"aborted", b"committed"]


# -- an id that several send while it is open who has it ---------------------------------------------------------------
def committed(log: ExtendedLog) -> list[str]:
    """What a consumer sees that reads what was committed."""
    log.deliver()
    found = log.read(isolation=COMMITTED)
    aborted = [(each.producer_id, range(each.first_offset, each.last_offset)) for each in found.aborted or ()]
    texts = []
    for batch in (b for buffer in found.buffers for b in split_batches(memoryview(buffer))):
        header = read_header(batch)
        if not header.is_control and not any(p == header.producer_id and header.base_offset in s for p, s in aborted):
            texts += [(record.value or b"").decode() for record in iterate(batch)]
    return texts


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (((1, True), (2, True)), "first"),
        (((2, True), (1, True)), "first"),
        (((1, False), (2, True)), "second"),
        (((2, True), (1, False)), "second"),
        (((1, True), (2, False)), "first"),
        (((2, False), (1, True)), "first"),
        (((1, False), (2, False)), "plain"),
        (((2, False), (1, False)), "plain"),
    ],
)
def test_an_id_in_two_open_transactions_and_a_plain_record_is_taken_once(
    log: ExtendedLog, ends: tuple[tuple[int, bool], ...], expected: str
) -> None:
    send_in_a_transaction(log, "first", 1, 0)
    send_in_a_transaction(log, "second", 2, 0)
    log.send("plain", msg_id="m")
    log.send("plain again", msg_id="m")
    assert committed(log) == []
    log.kill()

    for producer, commits in ends:
        log.end_transaction(ControlType.COMMIT if commits else ControlType.ABORT, producer)
        log.kill()

    log.send("late", msg_id="m")
    assert committed(log) == [expected]
    assert not list(log.partition.store.states(b"m/c"))
    assert not list(log.partition.store.states(b"m/w"))


def test_what_has_waited_for_a_transaction_keeps_its_delay_and_its_schedule_id(log: ExtendedLog) -> None:
    log.send("replaced", delay_ms=500, schedule_id="s")
    send_in_a_transaction(log, "aborted", 1, 0)
    log.send("later", msg_id="m", delay_ms=400, schedule_id="s")
    assert log.waiting() == ["replaced"]

    log.end_transaction(ControlType.ABORT, 1)
    assert log.waiting() == ["later"]
    log.pass_time(400)
    assert committed(log) == ["later"]


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


class OpenIds(RuleBasedStateMachine):
    """Whatever becomes of transactions: of all that sent an id and count in the end, one is taken."""

    @initialize()
    def create(self) -> None:
        self.log = ExtendedLog(kompat_dedup_window_ms=10**9, retention_ms=-1)
        self.sent: dict[int, set[str]] = {}  # by producer with an open transaction
        self.counting: set[str] = set()
        self.sequences: dict[int, int] = {}

    @rule(each=st.sampled_from("abc"))
    def send(self, each: str) -> None:
        self.log.send(each, msg_id=each)
        self.counting.add(each)

    @rule(each=st.sampled_from("abc"), producer=st.sampled_from([1, 2, 3]))
    def send_in_a_transaction(self, each: str, producer: int) -> None:
        sequence = self.sequences.get(producer, 0)
        send_in_a_transaction(self.log, each, producer, sequence, msg_id=each)
        self.sequences[producer] = sequence + 1
        self.sent.setdefault(producer, set()).add(each)

    @rule(producer=st.sampled_from([1, 2, 3]), commits=st.booleans())
    def end(self, producer: int, commits: bool) -> None:
        if producer in self.sent:
            self.log.end_transaction(ControlType.COMMIT if commits else ControlType.ABORT, producer)
            sent = self.sent.pop(producer)
            self.counting |= sent if commits else set()

    @rule()
    def kill(self) -> None:
        self.log.kill()

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        for producer in list(self.sent):
            self.end(producer, commits=producer % 2 == 0)
        assert sorted(committed(self.log)) == sorted(self.counting)
        states = self.log.partition.store.states(b"m/")
        assert not [name for name, _ in states if name[:3] in (dedup.UNDECIDED, contested.CLAIMS, contested.WAITING)]


OpenIds.TestCase.settings = settings(
    max_examples=100, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestOpenIds = OpenIds.TestCase
