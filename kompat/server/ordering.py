"""Which requests of one connection may begin while others that came before them are under way.

Kafka begins a request when the one before it on the connection has been answered, and clients that pipeline rely on it: whoever
sends CreateTopics and Metadata behind it expects the topic. So does this broker, but for the pairs in `MAY_FOLLOW`: of those it is
certain that the later request neither sees nor changes what the earlier one does.

- Produce behind Produce: its batches are in the log, and so have their offsets, as soon as a Produce has begun; what it waits for is
  their commit, and commits keep the log's order. A producer with several requests under way relies on that for its speed. It does not
  hold for a Produce that is still on its way to the log (a transaction's first batch waits for its coordinator): nothing passes that.

Two reads are not such a pair: the later one could be ready first, and would tell of an older state than the earlier one. Of what is
answered at once nothing of this is noticed, and a long poll ends as soon as another request waits behind it.
"""

from __future__ import annotations

PRODUCE = 0
MAY_FOLLOW: dict[int, frozenset[int]] = {PRODUCE: frozenset({PRODUCE})}
NOTHING: frozenset[int] = frozenset()


class Order:
    """Of one connection: what is under way, and what may begin beside it."""

    __slots__ = ("_allowed", "count")

    def __init__(self) -> None:
        self.count = 0  # requests that have begun and are not answered yet
        self._allowed = NOTHING  # keys of APIs that may begin beside all of them

    def begun(self, key: int, *, has_taken_place: bool) -> None:
        """`has_taken_place`: it has its place in the order of things, and only waits until that is certain."""
        allowed = MAY_FOLLOW.get(key, NOTHING) if has_taken_place else NOTHING
        if not self.count:
            self._allowed = allowed
        elif self._allowed is not allowed:
            self._allowed &= allowed
        self.count += 1

    def answered(self) -> None:
        self.count -= 1

    def lets_begin(self, key: int) -> bool:
        return not self.count or key in self._allowed
