"""The transaction coordinator, pure: one machine per partition of `__transaction_state`.

A command returns the record with its effect, and the reply that is due once that is committed. There is no pending
state: a record is applied when it is appended, and no reply is sent before it is committed. The service writes the
markers: it gets the prepared transactions from `to_complete`, writes, and calls `complete`.

Clients that use `transaction.version` 2 (KIP-890) get a new epoch with every transaction, so that a late message of an
old transaction can never become part of a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kompat.coordination.deadlines import Timers
from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.txn.records import Changed, Forgotten, Record
from kompat.txn.state import (
    COMPLETED,
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    PREPARED,
    State,
    Transaction,
)
from kompat.types import Millis, TopicPartition

EPOCH_BUMP_VERSION = 2
MAX_EPOCH = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer id and its epoch, as clients hold them."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class MustAbort:
    """A transaction of the previous producer is still open: it is being aborted, and the client has to retry."""

    producer: Producer


class TransactionMachine:
    def __init__(self, *, max_timeout_ms: int, expiration_ms: int) -> None:
        self._max_timeout_ms = max_timeout_ms
        self._expiration_ms = expiration_ms
        self._transactions: dict[str, Transaction] = {}
        self._deadlines: Timers[str, None] = Timers()  # by transactional id

    # -- replicated state ------------------------------------------------------------------------------------------
    def apply(self, record: Record) -> None:
        if isinstance(record, Forgotten):
            self._transactions.pop(record.transactional_id, None)
            self._deadlines.cancel(record.transactional_id)
        else:
            transaction = record.transaction
            self._transactions[transaction.transactional_id] = transaction
            due = self._due(transaction)
            if due is not None:
                self._deadlines.schedule(transaction.transactional_id, due, None)

    def _due(self, transaction: Transaction) -> Millis | None:
        """When a timeout of it is due.

        A prepared end has no deadline, but keeps the one from before: the next is later, and moving it costs nothing.
        """
        if transaction.state is State.ONGOING:
            return Millis(transaction.start_ms + transaction.timeout_ms)
        if transaction.state in PREPARED:
            return None
        return Millis(transaction.updated_ms + self._expiration_ms)

    # -- commands --------------------------------------------------------------------------------------------------
    def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, *, fresh_id: int, now: Millis
    ) -> Decision[Record, Producer | MustAbort]:
        """Initialize the producer. `fresh_id` is an unused producer id, for a new transactional id or when the epochs are
        exhausted; without one the client has to retry."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        known = self._transactions.get(transactional_id)
        if known is None:
            known = Transaction(
                transactional_id=transactional_id,
                producer_id=_given(fresh_id),
                producer_epoch=NO_EPOCH,
                timeout_ms=timeout_ms,
                state=State.EMPTY,
            )
        _require_no_pending_end(known)
        if expected is not None and not _may_continue(known, expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.state is State.ONGOING:
            aborted = self._fenced_abort(known, now)
            return Decision([Changed(aborted)], MustAbort(Producer(aborted.producer_id, aborted.producer_epoch)))
        taken = replace(
            _next_holder(known, expected, fresh_id),
            state=State.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIME,
            updated_ms=now,
        )
        return Decision([Changed(taken)], Producer(taken.producer_id, taken.producer_epoch))

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
        *,
        client_version: int,
        now: Millis,
    ) -> Decision[Record, None]:
        pending = self._transactions.get(transactional_id)
        if pending is not None:
            _require_no_pending_end(pending)
        known = self._held_by(transactional_id, producer)
        added = known.partitions | frozenset(partitions)
        if known.state is State.ONGOING and added == known.partitions:
            return Decision([], None)
        started = known.start_ms if known.state is State.ONGOING else now
        ongoing = replace(
            known,
            state=State.ONGOING,
            partitions=added,
            start_ms=started,
            updated_ms=now,
            client_version=client_version,
        )
        return Decision([Changed(ongoing)], None)

    def verify(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> Decision[Record, None]:
        """Check that the producer may write to the partition in its transaction. (For clients that add partitions themselves.)"""
        known = self._held_by(transactional_id, producer)
        _require_no_pending_end(known)
        if known.state is not State.ONGOING or partition not in known.partitions:
            raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE)
        return Decision([], None)

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        commit: bool,
        client_version: int,
        fresh_id: int,
        now: Millis,
    ) -> Decision[Record, Producer]:
        """Prepare the end. The reply is the producer id and epoch for the client's next transaction."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        known = self._transactions.get(transactional_id)
        if known is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        bumping = client_version >= EPOCH_BUMP_VERSION
        if bumping:
            _require_no_pending_end(known)
        retried = bumping and _is_retried_end(known, producer)
        if known.producer_id != producer.id and not retried:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if not retried and known.producer_epoch != producer.epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        _require_no_pending_end(known)
        if _already_ended(known, commit=commit, bumping=bumping, retried=retried):
            # Written a second time, because only a committed record is answered: a broker that has lost the leadership without
            # knowing it may take the end of the next transaction, which it has not seen, for a repetition of the last one.
            return Decision(
                [Changed(replace(known, updated_ms=now))], Producer(known.producer_id, known.producer_epoch)
            )
        next_id = _given(fresh_id) if bumping and known.epoch_exhausted else NO_PRODUCER_ID
        prepared = _prepared(known, commit=commit, client_version=client_version, next_id=next_id, now=now)
        if next_id != NO_PRODUCER_ID:
            return Decision([Changed(prepared)], Producer(next_id, 0))
        return Decision([Changed(prepared)], Producer(prepared.producer_id, prepared.producer_epoch))

    def complete(self, transactional_id: str, producer: Producer, *, now: Millis) -> Decision[Record, None]:
        """All markers of the prepared end are written."""
        known = self._transactions.get(transactional_id)
        if (
            known is None
            or known.state not in PREPARED
            or Producer(known.producer_id, known.producer_epoch) != producer
        ):
            return Decision([], None)  # another coordinator has completed it, after a fail-over
        committed = known.state is State.PREPARE_COMMIT
        completed = replace(
            known,
            state=State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_ms=now,
            next_producer_id=NO_PRODUCER_ID,
        )
        if known.next_producer_id != NO_PRODUCER_ID:
            completed = replace(
                completed,
                previous_producer_id=known.producer_id,
                producer_id=known.next_producer_id,
                producer_epoch=0,
            )
        return Decision([Changed(completed)], None)

    def next_deadline(self) -> Millis | None:
        return self._deadlines.next_deadline()

    def tick(self, now: Millis) -> Decision[Record, None]:
        """Abort transactions whose timeout has passed; remove ids that have not been used for long."""
        records: list[Record] = []
        while (due := self._deadlines.pop_due(now)) is not None:
            late = self._transactions[due[0]]
            if late.state is State.ONGOING:
                records.append(Changed(self._fenced_abort(late, now)))
            elif late.state not in PREPARED:
                records.append(Forgotten(due[0]))
        return Decision(records, None)

    # -- questions -------------------------------------------------------------------------------------------------
    def to_complete(self) -> Iterator[Transaction]:
        """Prepared ends whose markers may not all be written: all of them, after a restart."""
        return (t for t in self._transactions.values() if t.state in PREPARED)

    def find(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def all(self) -> Iterable[Transaction]:
        return self._transactions.values()

    # -- rules -----------------------------------------------------------------------------------------------------
    def _held_by(self, transactional_id: str, producer: Producer) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        known = self._transactions.get(transactional_id)
        if known is None or known.producer_id != producer.id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.producer_epoch != producer.epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return known

    def _fenced_abort(self, known: Transaction, now: Millis) -> Transaction:
        """Abort by the broker: it bumps the epoch first, which fences the producer."""
        fenced = replace(known, producer_epoch=min(known.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_EPOCH)
        return _prepared(fenced, commit=False, client_version=known.client_version, next_id=NO_PRODUCER_ID, now=now)


def _given(fresh_id: int) -> int:
    if fresh_id == NO_PRODUCER_ID:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return fresh_id


def _require_no_pending_end(known: Transaction) -> None:
    """While markers are being written the client has to retry, with whichever id and epoch: those for its next transaction
    are not valid yet, and a fatal error would end a healthy producer."""
    if known.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


def _may_continue(known: Transaction, expected: Producer) -> bool:
    """A producer that sends its id and epoch may only continue if no other one has taken over since."""
    return (
        known.producer_epoch == NO_EPOCH
        or expected.id == known.producer_id
        or (expected.id == known.previous_producer_id and expected.epoch >= LAST_CLIENT_EPOCH)
    )


def _next_holder(known: Transaction, expected: Producer | None, fresh_id: int) -> Transaction:
    """The id and epoch that the next producer of the transactional id gets."""
    if known.epoch_exhausted and (expected is None or expected.epoch == known.producer_epoch):
        return replace(
            known,
            producer_id=_given(fresh_id),
            producer_epoch=0,
            previous_producer_id=known.producer_id,
            last_producer_epoch=NO_EPOCH if expected is None else known.producer_epoch,
        )
    bumped = replace(known, producer_epoch=known.producer_epoch + 1, last_producer_epoch=known.producer_epoch)
    if expected is None:
        return replace(bumped, last_producer_epoch=NO_EPOCH)
    if known.producer_epoch in (NO_EPOCH, expected.epoch):
        return bumped
    if expected.epoch == known.last_producer_epoch:
        return known  # the same request again: its response was lost
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _is_retried_end(known: Transaction, producer: Producer) -> bool:
    """Whether this end was already prepared under the previous epoch. (Version 2 bumps it at the end.)"""
    if known.state not in COMPLETED:
        return False
    if known.producer_id == producer.id:
        return known.producer_epoch == producer.epoch + 1
    return (
        known.previous_producer_id == producer.id and producer.epoch == LAST_CLIENT_EPOCH and known.producer_epoch == 0
    )


def _already_ended(known: Transaction, *, commit: bool, bumping: bool, retried: bool) -> bool:
    """True: only respond. False: prepare the end. Raises if it may not end this way."""
    same = known.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    if known.state is State.ONGOING:
        return False
    if bumping:
        if retried and same:
            return True
        if not commit and not retried:
            return False  # aborting an empty transaction still bumps the epoch, to fence what is in progress
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    if same:
        return True
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def _prepared(known: Transaction, *, commit: bool, client_version: int, next_id: int, now: Millis) -> Transaction:
    bumping = client_version >= EPOCH_BUMP_VERSION
    return replace(
        known,
        state=State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
        producer_epoch=min(known.producer_epoch + 1, MAX_EPOCH) if bumping else known.producer_epoch,
        last_producer_epoch=known.producer_epoch if bumping else known.last_producer_epoch,
        next_producer_id=next_id,
        start_ms=known.start_ms if known.state is State.ONGOING else now,
        updated_ms=now,
        client_version=client_version,
    )
