"""Message ids in open transactions: which records claim an id, in the order of the claims. Pure.

The first record that claims an id in a transaction is in the log, and cannot be removed. A later record with the same id
cannot be dropped while that transaction is open, since it may be aborted; nor can it be appended to the log, since the
transaction may be committed. So it waits beside the log. When the transaction ends, it is dropped, or delivered like a delayed record.

| state's name | value |
| --- | --- |
| `m/c`, message id | the claims |
| `m/w`, slot | a record that waits for the claims before its own, stored like a delayed one |
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from kompat.extensions.delay import records as parked
from kompat.extensions.delay.records import DelayedRecord
from kompat.extensions.states import Draft
from kompat.types import NO_PRODUCER, Millis, Offset

CLAIMS: Final = b"m/c"
WAITING: Final = b"m/w"
_CLAIM = Struct(">qQQQB")
_NUMBER = Struct(">Q")


class Transaction(NamedTuple):
    """An open transaction: its producer, and its first offset."""

    producer_id: int
    start: Offset


NONE: Final = Transaction(NO_PRODUCER, Offset(0))  # of records outside of transactions


class Claim(NamedTuple):
    transaction: Transaction
    time: Millis
    slot: Offset
    is_waiting: bool  # beside the log

    @property
    def is_decided(self) -> bool:
        return self.transaction == NONE


class Contest:
    """The claims for one id."""

    def __init__(self, draft: Draft, message_id: bytes) -> None:
        self._draft = draft
        self._name = CLAIMS + message_id
        value = draft.get(self._name)
        self._claims = [] if value is None else [_decoded(*row) for row in _CLAIM.iter_unpack(value)]

    def is_open(self, now: Millis, window_ms: int) -> bool:
        """Whether it is undecided if the id was seen within the window."""
        return any(now - each.time < window_ms for each in self._claims)

    @property
    def has_decided(self) -> bool:
        """Whether a waiting record's id is taken in any case: by that record, or by one before it."""
        return any(each.is_decided for each in self._claims)

    # -- coming ----------------------------------------------------------------------------------------------------
    def begin(self, claim: Claim) -> None:
        """The first valid one; a claim older than the window is not, unless a record waits for it."""
        if all(not each.is_waiting for each in self._claims):
            self._claims = [claim]
            self._save()

    def wait(self, claim: Claim, record: DelayedRecord) -> None:
        self._claims.append(claim)
        self._draft.put(WAITING + _NUMBER.pack(claim.slot), record.encode())
        self._save()

    # -- going -----------------------------------------------------------------------------------------------------
    def end(self, ended: Transaction, deliver: Callable[[DelayedRecord], None], *, commits: bool) -> Claim | None:
        """A transaction with a claim has ended: returns the claim that gets the id, if that is decided now."""
        for claim in [each for each in self._claims if each.transaction == ended]:
            self._end(claim, commits=commits)
        winner = self._claims[0] if self._claims and self._claims[0].is_decided else None
        if winner is not None:
            if winner.is_waiting:
                deliver(self._taken(winner))
            self._drop(self._claims[1:])
            self._claims = []
        self._save()
        return winner

    def _end(self, claim: Claim, *, commits: bool) -> None:
        """The first decided claim gets the id: claims behind it are dropped, whatever happens to those before it."""
        place = self._claims.index(claim)
        before, behind = self._claims[:place], self._claims[place + 1 :]
        if commits and not any(each.is_decided for each in before):
            self._drop([each for each in behind if each.is_decided])
            undecided = [each for each in behind if not each.is_decided]
            self._claims = [*before, claim._replace(transaction=NONE), *undecided]
        else:
            self._drop([claim])
            self._claims = [*before, *behind]

    def _drop(self, claims: list[Claim]) -> None:
        for each in claims:
            if each.is_waiting:
                self._draft.delete(WAITING + _NUMBER.pack(each.slot))

    def _taken(self, claim: Claim) -> DelayedRecord:
        name = WAITING + _NUMBER.pack(claim.slot)
        value = self._draft.get(name)
        assert value is not None, claim  # noqa: S101 - it was written with the claim
        self._draft.delete(name)
        return parked.decode(claim.slot, value)

    def _save(self) -> None:
        if self._claims:
            self._draft.put(self._name, b"".join(_encoded(each) for each in self._claims))
        else:
            self._draft.delete(self._name)


def _encoded(claim: Claim) -> bytes:
    return _CLAIM.pack(*claim.transaction, claim.time, claim.slot, claim.is_waiting)


def _decoded(producer_id: int, start: int, time: int, slot: int, is_waiting: int) -> Claim:
    return Claim(Transaction(producer_id, Offset(start)), Millis(time), Offset(slot), bool(is_waiting))
