"""Message ids that a partition has seen: a record that repeats one within the window is dropped. Pure, like timers.py.

| state's name | value |
| --- | --- |
| `m/s` | a time before which no known id was seen |
| `m/i`, message id | when and at which offset it was seen |
| `m/e`, time, offset | the id, to be removed in order |
| `m/x`, producer, first offset, message id | as `m/i`, of an open transaction: if it is aborted, the id was never seen |
| `m/n`, producer, first offset | how many of these there are |

With each new id two expired ones are removed. For ids that are repeated while a transaction with them is open, see contested.py.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Final

from kompat.extensions.dedup.contested import NONE, Claim, Contest, Transaction
from kompat.extensions.delay.records import DelayedRecord
from kompat.extensions.states import Draft
from kompat.types import Millis, Offset

OLDEST: Final = b"m/s"
ID: Final = b"m/i"
EXPIRY: Final = b"m/e"
UNDECIDED: Final = b"m/x"
COUNT: Final = b"m/n"
_PAIR = Struct(">QQ")
_NUMBER = Struct(">Q")
_CONTESTED: Final = b"c"  # after the value: the record is not in the log, and the claims decide about it


class Verdict(Enum):
    """The decision on a record with a message id."""

    NEW = "new"
    REPEATED = "repeated"
    CONTESTED = "contested"  # it waits for an open transaction that has the id


class Seen:
    """The changes to the ids by a batch."""

    def __init__(self, draft: Draft, *, has_transactions: bool = True) -> None:
        """`has_transactions`: whether the partition has open transactions; without any, no id is contested."""
        self._draft = draft
        self._has_transactions = has_transactions
        self._oldest = draft.get(OLDEST)
        self._added = 0

    def take(self, message_id: str, now: Millis, window_ms: int, slot: Offset, within: Transaction | None) -> Verdict:
        """Decide on a record, and store the id if it is new. A contested one has to be passed to `contest` then."""
        encoded = message_id.encode()
        known = self._draft.get(ID + encoded)
        if _is_within(known, now, window_ms):
            return Verdict.REPEATED
        if within is None and not self._has_transactions:
            self._remember(encoded, _PAIR.pack(now, slot), known)
            return Verdict.NEW
        if within is not None and _is_within(self._draft.get(_prefix(within) + encoded), now, window_ms):
            return Verdict.REPEATED
        contest = Contest(self._draft, encoded)
        if contest.is_open(now, window_ms):
            return Verdict.REPEATED if contest.has_decided else Verdict.CONTESTED
        if within is None:
            self._remember(encoded, _PAIR.pack(now, slot), known)
        else:
            contest.begin(Claim(within, now, slot, is_waiting=False))
            self._put_undecided(within, encoded, _PAIR.pack(now, slot))
        return Verdict.NEW

    def contest(self, message_id: str, now: Millis, record: DelayedRecord, within: Transaction | None) -> None:
        """Let a record wait until the claims for its id are decided."""
        encoded = message_id.encode()
        Contest(self._draft, encoded).wait(Claim(within or NONE, now, record.slot, is_waiting=True), record)
        if within is not None:
            self._put_undecided(within, encoded, _PAIR.pack(now, record.slot) + _CONTESTED)

    def undecided(self, within: Transaction) -> int:
        """Ids of an open transaction: all of them are decided at once, with its end."""
        count = self._draft.get(_count_name(within))
        return 0 if count is None else int(_NUMBER.unpack(count)[0])

    def _put_undecided(self, within: Transaction, message_id: bytes, value: bytes) -> None:
        self._draft.put(_prefix(within) + message_id, value)
        self._draft.put(_count_name(within), _NUMBER.pack(self.undecided(within) + 1))

    def _remember(self, message_id: bytes, value: bytes, old: bytes | None) -> None:
        """`old`: the earlier entry of the id."""
        if old is not None and old >= value:
            return  # it was seen later, too
        if old is not None:
            self._draft.delete(EXPIRY + old)
        self._draft.put(ID + message_id, value)
        self._draft.put(EXPIRY + value, message_id)
        if self._oldest is None or value[: _NUMBER.size] < self._oldest:
            self._set_oldest(value[: _NUMBER.size])
        self._added += 1

    def _set_oldest(self, time: bytes) -> None:
        self._oldest = time
        self._draft.put(OLDEST, time)

    def end_transaction(self, ended: Transaction, deliver: Callable[[DelayedRecord], None], *, commits: bool) -> None:
        """`deliver`: called with the waiting records that are to be delivered."""
        if not self.undecided(ended):
            return
        self._draft.delete(_count_name(ended))
        start, end = _prefix(ended), _prefix(Transaction(ended.producer_id, Offset(ended.start + 1)))
        for name, value in self._draft.view.range(start, end):
            message_id = name[len(start) :]
            self._draft.delete(name)
            winner = Contest(self._draft, message_id).end(ended, deliver, commits=commits)
            if winner is not None:
                value = _PAIR.pack(winner.time, winner.slot)
            elif not commits or value.endswith(_CONTESTED, _PAIR.size):
                continue
            self._remember(message_id, value, self._draft.get(ID + message_id))

    def forget_old(self, now: Millis, window_ms: int) -> None:
        """Remove expired ids, more than were added."""
        oldest = self._oldest
        limit = _NUMBER.pack(max(0, now - window_ms + 1))
        if not self._added or oldest is None or oldest >= limit:
            return
        wanted = 2 * self._added
        old = self._draft.view.range(EXPIRY + oldest, EXPIRY + limit, wanted)
        for name, message_id in old:
            if self._draft.get(name) is not None:  # else it was seen again
                self._draft.delete(name)
                self._draft.delete(ID + message_id)
        self._set_oldest(limit if len(old) < wanted else _time_of(old[-1][0]))


def _is_within(seen: bytes | None, now: Millis, window_ms: int) -> bool:
    return seen is not None and now - _PAIR.unpack_from(seen)[0] < window_ms


def _prefix(transaction: Transaction) -> bytes:
    """Only of this transaction: entries that earlier ones have left are not read."""
    return UNDECIDED + _PAIR.pack(*transaction)


def _count_name(transaction: Transaction) -> bytes:
    return COUNT + _PAIR.pack(*transaction)


def _time_of(expiry_name: bytes) -> bytes:
    return expiry_name[len(EXPIRY) : len(EXPIRY) + _NUMBER.size]
