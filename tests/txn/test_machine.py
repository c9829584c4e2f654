"""The transaction coordinator's rules."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.txn.machine import MustAbort, Producer, TransactionMachine
from kompat.txn.records import Changed, Forgotten, Record, decode, encode
from kompat.txn.state import LAST_CLIENT_EPOCH, State, Transaction
from kompat.types import Millis, TopicPartition

ID = "orders-app"
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = Millis(1_000_000)
MINUTE = 60_000


class Coordinator:
    """A machine whose decisions are applied at once, as the runtime does it."""

    def __init__(self) -> None:
        self.machine = TransactionMachine(max_timeout_ms=15 * MINUTE, expiration_ms=7 * 24 * 60 * MINUTE)
        self.log: list[Record] = []
        self.next_id = 100
        self.now = NOW

    def run(self, decide: Callable[[TransactionMachine], Decision[Record, Any]]) -> Any:
        decision = decide(self.machine)
        for record in decision.records:
            self.log.append(record)
            self.machine.apply(record)
        return decision.reply

    def fresh(self) -> int:
        self.next_id += 1
        return self.next_id

    def init(self, expected: Producer | None = None, timeout: int = MINUTE) -> Any:
        return self.run(lambda m: m.init_producer(ID, timeout, expected, fresh_id=self.fresh(), now=self.now))

    def add(self, producer: Producer, *partitions: TopicPartition, version: int = 2) -> None:
        self.run(lambda m: m.add_partitions(ID, producer, partitions, client_version=version, now=self.now))

    def end(self, producer: Producer, *, commit: bool = True, version: int = 2) -> Any:
        return self.run(
            lambda m: m.end(ID, producer, commit=commit, client_version=version, fresh_id=self.fresh(), now=self.now)
        )

    def complete(self) -> None:
        for each in list(self.machine.to_complete()):
            producer = Producer(each.producer_id, each.producer_epoch)
            self.run(lambda m: m.complete(ID, producer, now=self.now))  # noqa: B023 - runs at once

    def tick(self) -> None:
        self.run(lambda m: m.tick(self.now))

    @property
    def transaction(self) -> Transaction:
        found = self.machine.find(ID)
        assert found is not None
        return found


def refused(call: Callable[[], Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call()
    return raised.value.code


def test_a_new_transactional_id_starts_with_epoch_zero_of_a_fresh_producer_id() -> None:
    assert Coordinator().init() == Producer(101, 0)


def test_whoever_initialises_again_fences_the_holder_before() -> None:
    c = Coordinator()
    first = c.init()

    second = c.init()

    assert second == Producer(first.id, first.epoch + 1)
    assert refused(lambda: c.add(first, P0)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_names_itself_may_bump_its_epoch_and_ask_again() -> None:
    c = Coordinator()
    first = c.init()

    bumped = c.init(expected=first)

    assert bumped == Producer(first.id, 1)
    assert c.init(expected=first) == bumped  # the answer was lost: the same answer again


def test_a_producer_that_names_a_fenced_epoch_is_refused() -> None:
    c = Coordinator()
    first = c.init()
    c.init()

    assert refused(lambda: c.init(expected=first)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout", [0, -1, 15 * MINUTE + 1])
def test_a_time_out_outside_the_brokers_limit_is_refused(timeout: int) -> None:
    assert refused(lambda: Coordinator().init(timeout=timeout)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_the_first_partition_starts_the_transaction() -> None:
    c = Coordinator()
    producer = c.init()

    c.add(producer, P0)
    c.now = Millis(NOW + 5)
    c.add(producer, P1)

    assert (c.transaction.state, c.transaction.start_ms) == (State.ONGOING, NOW)
    assert c.transaction.partitions == {P0, P1}


def test_adding_a_known_partition_writes_nothing() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0)
    written = len(c.log)

    c.add(producer, P0)

    assert len(c.log) == written


def test_verification_asks_for_an_open_transaction_with_the_partition() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0)

    c.machine.verify(ID, producer, P0)

    assert refused(lambda: c.machine.verify(ID, producer, P1)) is ErrorCode.TRANSACTION_ABORTABLE


def test_version_two_gives_every_transaction_an_epoch_of_its_own() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0)

    following = c.end(producer)
    c.complete()

    assert following == Producer(producer.id, producer.epoch + 1)
    assert c.transaction.state is State.COMPLETE_COMMIT
    c.add(following, P1)
    assert refused(lambda: c.add(producer, P0)) is ErrorCode.PRODUCER_FENCED


def test_version_one_keeps_the_epoch() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0, version=0)

    assert c.end(producer, version=0) == producer


def test_a_retried_end_gets_the_answer_of_the_first() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0)
    following = c.end(producer)

    assert refused(lambda: c.end(producer)) is ErrorCode.CONCURRENT_TRANSACTIONS
    c.complete()
    assert c.end(producer) == following
    assert refused(lambda: c.end(producer, commit=False)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [0, 2])
def test_a_retried_end_is_answered_only_by_who_can_still_write(version: int) -> None:
    """Else a coordinator that was paused tells the end of a transaction that it has never heard of."""
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0, version=version)
    c.end(producer, version=version)
    c.complete()
    before, known = len(c.log), c.transaction
    c.now = Millis(NOW + 1)
    c.end(producer, version=version)

    assert c.log[before:] == [Changed(replace(known, updated_ms=c.now))]


@pytest.mark.parametrize("version", [1, 2])
def test_a_prepared_commit_cannot_be_aborted(version: int) -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0, version=version)
    c.end(producer, version=version)

    assert refused(lambda: c.end(producer, commit=False, version=version)) is ErrorCode.CONCURRENT_TRANSACTIONS
    c.complete()
    assert refused(lambda: c.end(producer, commit=False, version=version)) is ErrorCode.INVALID_TXN_STATE


def test_an_abort_right_after_a_commit_is_tried_again_while_the_markers_are_written() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0)
    following = c.end(producer)

    assert refused(lambda: c.end(following, commit=False)) is ErrorCode.CONCURRENT_TRANSACTIONS
    c.complete()
    assert c.end(following, commit=False) == Producer(following.id, following.epoch + 1)


@pytest.mark.slow
def test_a_producer_whose_epochs_run_out_goes_on_with_the_id_that_it_was_given() -> None:
    c = Coordinator()
    producer = first = c.init()
    for _ in range(LAST_CLIENT_EPOCH + 2):
        c.add(producer, P0)
        following = c.end(producer)
        # None of these may end the producer: what it was given counts as soon as the markers are written.
        assert refused(lambda: c.add(following, P0)) is ErrorCode.CONCURRENT_TRANSACTIONS  # noqa: B023 - runs at once
        assert refused(lambda: c.end(following, commit=False)) is ErrorCode.CONCURRENT_TRANSACTIONS  # noqa: B023
        assert refused(lambda: c.init(following)) is ErrorCode.CONCURRENT_TRANSACTIONS  # noqa: B023
        c.complete()
        producer = following

    assert producer.id != first.id
    assert c.end(producer, commit=False).epoch == producer.epoch + 1


def test_nothing_can_be_added_while_the_markers_are_written() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0)
    following = c.end(producer)

    assert refused(lambda: c.add(following, P0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refused(c.init) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_committing_an_empty_transaction_is_refused_and_aborting_one_bumps_the_epoch() -> None:
    c = Coordinator()
    producer = c.init()

    assert refused(lambda: c.end(producer)) is ErrorCode.INVALID_TXN_STATE
    assert c.end(producer, commit=False) == Producer(producer.id, producer.epoch + 1)


def test_initialising_over_an_open_transaction_aborts_it_first() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0)

    assert isinstance(c.init(), MustAbort)
    assert c.transaction.state is State.PREPARE_ABORT
    assert refused(lambda: c.end(producer)) is ErrorCode.CONCURRENT_TRANSACTIONS
    c.complete()
    assert refused(lambda: c.end(producer)) is ErrorCode.PRODUCER_FENCED
    assert c.init().epoch > producer.epoch


def test_an_abandoned_transaction_is_aborted_after_its_time_out() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0)

    c.now = Millis(NOW + MINUTE - 1)
    c.tick()
    assert c.transaction.state is State.ONGOING
    c.now = Millis(NOW + MINUTE)
    c.tick()

    assert c.transaction.state is State.PREPARE_ABORT
    assert refused(lambda: c.end(producer)) is ErrorCode.CONCURRENT_TRANSACTIONS
    c.complete()
    assert refused(lambda: c.end(producer)) is ErrorCode.PRODUCER_FENCED


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    c = Coordinator()
    c.init()

    c.now = Millis(NOW + 7 * 24 * 60 * MINUTE)
    c.tick()

    assert c.machine.find(ID) is None
    assert c.log[-1] == Forgotten(ID)


def test_an_id_that_is_in_use_is_not_forgotten_and_its_deadlines_do_not_pile_up() -> None:
    c = Coordinator()
    producer = c.init()
    for _ in range(1000):
        c.now = Millis(c.now + 7 * 24 * 60 * MINUTE - 1)
        c.tick()
        c.add(producer, P0)
        producer = c.end(producer)
        c.complete()

    assert c.transaction.state is State.COMPLETE_COMMIT
    assert len(c.machine._deadlines._heap) < 10


def test_a_time_out_that_comes_while_the_end_is_written_changes_nothing() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0)
    c.end(producer)

    c.now = Millis(NOW + MINUTE)
    c.tick()
    assert c.transaction.state is State.PREPARE_COMMIT
    c.complete()
    c.now = Millis(c.now + 7 * 24 * 60 * MINUTE)
    c.tick()

    assert c.machine.find(ID) is None


def test_when_the_epochs_run_out_the_next_transaction_has_a_new_producer_id() -> None:
    c = Coordinator()
    producer = c.init()
    c.machine.apply(Changed(_at_epoch(c.transaction, LAST_CLIENT_EPOCH)))
    last = Producer(producer.id, LAST_CLIENT_EPOCH)
    c.add(last, P0)

    following = c.end(last)
    c.complete()

    assert following.id != producer.id
    assert following.epoch == 0
    assert c.end(last) == following  # asked again
    c.add(following, P0)


def _at_epoch(transaction: Transaction, epoch: int) -> Transaction:
    from dataclasses import replace

    return replace(transaction, producer_epoch=epoch)


def test_records_survive_the_way_through_bytes() -> None:
    c = Coordinator()
    producer = c.init()
    c.add(producer, P0, P1)
    c.end(producer)
    c.complete()

    for record in [*c.log, Forgotten(ID)]:
        again = decode(*encode(record))
        assert _persisted(again) == _persisted(record)


def _persisted(record: Record | None) -> Any:
    """As it is on disk: the last epoch is not, in Kafka's format."""
    from dataclasses import replace

    return replace(record.transaction, last_producer_epoch=-1) if isinstance(record, Changed) else record


STEPS = st.lists(
    st.tuples(st.sampled_from(["init", "add", "commit", "abort", "complete", "tick", "crash"]), st.integers(0, 90_000)),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_one_epoch_has_at_most_one_outcome(steps: list[tuple[str, int]]) -> None:
    """Commits and aborts never meet in one producer epoch, and the state after a replay decides the same."""
    c, holder = Coordinator(), Producer(-1, -1)
    outcomes: dict[tuple[int, int], bool] = {}
    for step, wait in steps:
        c.now = Millis(c.now + wait)
        try:
            if step == "init":
                reply = c.init()
                holder = reply if isinstance(reply, Producer) else holder
            elif step == "add":
                c.add(holder, P0)
            elif step in ("commit", "abort"):
                before = holder
                holder = c.end(holder, commit=step == "commit")
                assert outcomes.setdefault((before.id, before.epoch), step == "commit") == (step == "commit")
            elif step == "complete":
                c.complete()
            elif step == "tick":
                c.tick()
            else:
                survivor = Coordinator()
                for record in c.log:
                    again = decode(*encode(record))
                    assert again is not None
                    survivor.machine.apply(again)
                c.machine = survivor.machine
        except KafkaError:
            continue
    for each in c.machine.all():
        assert (each.state is State.ONGOING) <= bool(each.partitions)
