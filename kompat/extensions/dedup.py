"""Message ids that a partition has seen: a record that repeats one within the window is dropped. Pure, like timers.py.

| state's name | value |
| --- | --- |
| `m/s` | a time before which nothing was seen that is still known |
| `m/i`, message id | when and at which offset it was seen |
| `m/e`, time, offset | the id, to be forgotten in order |
| `m/x`, producer, first offset, message id | as `m/i`, of a transaction that has not ended: should it be aborted, the id was never seen |

What is too old is forgotten as new ids come, two for one.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from kompat.extensions.states import Draft
from kompat.types import Millis, Offset

OLDEST: Final = b"m/s"
ID: Final = b"m/i"
EXPIRY: Final = b"m/e"
UNDECIDED: Final = b"m/x"
_PAIR = Struct(">QQ")
_NUMBER = Struct(">Q")


class Transaction(NamedTuple):
    """One that has not ended: its producer, and where it began."""

    producer_id: int
    start: Offset

    @property
    def prefix(self) -> bytes:
        """Of its own: what earlier ones have left behind need not be walked over."""
        return UNDECIDED + _PAIR.pack(self.producer_id, self.start)


class Seen:
    """What a batch makes of the ids."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._added = 0

    def is_repeated(self, message_id: str, now: Millis, window_ms: int, within: Transaction | None) -> bool:
        """Whether the id was seen within the window, or in the record's own transaction."""
        encoded = message_id.encode()
        names = [ID + encoded]
        if within is not None:
            names.append(within.prefix + encoded)
        for name in names:
            value = self._draft.get(name)
            if value is not None and now - _PAIR.unpack(value)[0] < window_ms:
                return True
        return False

    def add(self, message_id: str, now: Millis, offset: Offset, within: Transaction | None) -> None:
        value = _PAIR.pack(now, offset)
        if within is not None:
            self._draft.put(within.prefix + message_id.encode(), value)
        else:
            self._remember(message_id.encode(), value)

    def _remember(self, message_id: bytes, value: bytes) -> None:
        old = self._draft.get(ID + message_id)
        if old is not None:
            self._draft.delete(EXPIRY + old)
        self._draft.put(ID + message_id, value)
        self._draft.put(EXPIRY + value, message_id)
        oldest, time = self._draft.get(OLDEST), value[: _NUMBER.size]
        if oldest is None or time < oldest:
            self._draft.put(OLDEST, time)
        self._added += 1

    def end_transaction(self, ended: Transaction, *, commits: bool) -> None:
        start, end = ended.prefix, Transaction(ended.producer_id, Offset(ended.start + 1)).prefix
        for name, value in self._draft.view.range(start, end):
            self._draft.delete(name)
            if commits:
                self._remember(name[len(start) :], value)

    def forget_old(self, now: Millis, window_ms: int) -> None:
        """Make room, as much as was taken and some more."""
        oldest = self._draft.get(OLDEST)
        limit = _NUMBER.pack(max(0, now - window_ms + 1))
        if not self._added or oldest is None or oldest >= limit:
            return
        wanted = 2 * self._added
        old = self._draft.view.range(EXPIRY + oldest, EXPIRY + limit, wanted)
        for name, message_id in old:
            if self._draft.get(name) is not None:  # else it was seen anew
                self._draft.delete(name)
                self._draft.delete(ID + message_id)
        self._draft.put(OLDEST, limit if len(old) < wanted else _time_of(old[-1][0]))


def _time_of(expiry_name: bytes) -> bytes:
    return expiry_name[len(EXPIRY) : len(EXPIRY) + _NUMBER.size]
