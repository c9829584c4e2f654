"""How much memory answers from the store may take, from the read until their clients have taken them off the socket.

Apache Kafka sends such answers out of the page cache; here they lie in memory, as large as clients ask for. Consumers
that are far behind, or one that asks and does not read, would take all there is. So the less room is left, the less an
answer holds: a consumer asks for the rest with its next request, and nobody waits for another or is refused.
"""

from __future__ import annotations

from collections.abc import Callable

LIMIT = 64 << 20
SHARE = 4  # of what is left, for one answer
LEAST = 128 << 10  # for every answer, however little is left: else those who do not read would stop those who do


class FetchRoom:
    """`unread` tells how many bytes of answers wait for clients who are slow to take them."""

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
