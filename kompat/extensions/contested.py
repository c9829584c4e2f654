"""Message ids in transactions that have not ended: who claims one, in the order in which the claims came. Pure.

The first that claims an id in a transaction has its record in the log, where nobody can take it out again. Whoever sends the same id
while that transaction is open cannot be refused for it, for the transaction may be aborted; nor can his record go into the log, for it may be
committed. So it waits beside the log. When the transaction ends, the record is dropped, or delivered as one that was delayed.

| state's name | value |
| --- | --- |
| `m/c`, message id | the claims |
| `m/w`, slot | a record that waits for the claims before its own, as delayed ones are kept |
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from kompat.extensions import parked
from kompat.extensions.parked import Parked
from kompat.extensions.states import Draft
from kompat.types import NO_PRODUCER, Millis, Offset

CLAIMS: Final = b"m/c"
WAITING: Final = b"m/w"
_CLAIM = Struct(">qQQQB")
_NUMBER = Struct(">Q")


class Transaction(NamedTuple):
    """One that has not ended: its producer, and where it began."""

    producer_id: int
    start: Offset


NONE: Final = Transaction(NO_PRODUCER, Offset(0))  # of records that count whatever becomes of transactions


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
        """Is it undecided whether the id was seen within the window?"""
        return any(now - each.time < window_ms for each in self._claims)

    @property
    def has_decided(self) -> bool:
        """One of those who wait counts in any case: if not his record, then one before it."""
        return any(each.is_decided for each in self._claims)

    # -- coming ----------------------------------------------------------------------------------------------------
    def begin(self, claim: Claim) -> None:
        """The first one that counts; what is older than the window does not, unless somebody waits for it."""
        if all(not each.is_waiting for each in self._claims):
            self._claims = [claim]
            self._save()

    def wait(self, claim: Claim, record: Parked) -> None:
        self._claims.append(claim)
        self._draft.put(WAITING + _NUMBER.pack(claim.slot), record.encode())
        self._save()

    # -- going -----------------------------------------------------------------------------------------------------
    def end(self, ended: Transaction, deliver: Callable[[Parked], None], *, commits: bool) -> Claim | None:
        """A transaction with a claim has ended: the claim that the id goes to by that, if it is decided now."""
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
        """Of those that are decided, the first counts: what comes behind it will not, whatever becomes of those before it."""
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

    def _taken(self, claim: Claim) -> Parked:
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
