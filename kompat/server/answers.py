"""A cache of encoded responses, by the bytes of their requests.

Clients request metadata again and again, and mostly nothing has changed. Bounded in number and in bytes.
"""

from __future__ import annotations

from collections.abc import Hashable

MOST = 1024
LONGEST_QUESTION = 1024
LONGEST_ANSWER = 64 * 1024


class Answers:
    """The cached responses of one API. They are dropped when the stamp of the state that they describe changes."""

    __slots__ = ("_known", "_stamp")

    def __init__(self) -> None:
        self._stamp: object = None
        self._known: dict[Hashable, bytes] = {}

    def find(self, stamp: object, question: Hashable) -> bytes | None:
        if stamp != self._stamp:
            self._stamp = stamp
            self._known.clear()
        return self._known.get(question)

    def remember(self, stamp: object, question: Hashable, answer: bytes) -> None:
        if stamp != self._stamp or len(answer) > LONGEST_ANSWER:
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[question] = answer
