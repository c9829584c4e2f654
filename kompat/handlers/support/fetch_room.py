"""Limits the memory of responses from the store, from the read until their clients have received them.

Apache Kafka sends such responses out of the page cache; here they are in memory, as large as clients request. Lagging
consumers, or one that does not read its responses, would take all memory. So the less room is left, the smaller a response
is: a consumer fetches the rest with its next request, and no client waits for another or is refused.
"""

from __future__ import annotations

from collections.abc import Callable

LIMIT = 64 << 20
SHARE = 4  # of what is left, for one answer
LEAST = 128 << 10  # for every response, however little is left: else clients that do not read would stop those that do


class FetchRoom:
    """`unread` returns the bytes of responses that clients have not read yet."""

    __slots__ = ("_limit", "_reading", "unread")

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._reading = 0
        self.unread: Callable[[], int] = lambda: 0

    def reserve(self, wanted: int) -> int:
        """How much an answer may hold that would like to hold `wanted`; to be given back when it is on its way."""
        left = self._limit - self._reading - self.unread()
        granted = min(wanted, max(LEAST, left // SHARE))
        self._reading += granted
        return granted

    def give_back(self, granted: int) -> None:
        self._reading -= granted
