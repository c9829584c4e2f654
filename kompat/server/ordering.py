"""Which requests of one connection may begin while others that came before them are under way.

Kafka begins a request when the one before it on the connection has been answered, and clients that pipeline rely on it: a client
that sends CreateTopics and then Metadata expects the topic. This broker does the same, except for the pairs in `MAY_FOLLOW`: in
those the later request neither sees nor changes what the earlier one does.

- Produce behind Produce: its batches are in the log, and so have their offsets, as soon as a Produce has begun; what it waits for is
  their commit, and commits keep the log's order. A producer with several requests under way relies on that for its speed. It does not
  hold for a Produce that is still on its way to the log (a transaction's first batch waits for its coordinator): nothing passes that.

Two reads are not such a pair: the later one could be ready first, and would show an older state than the earlier one.
Requests that are answered at once are not affected, and a long poll ends as soon as another request waits behind it.
"""

from __future__ import annotations

from kompat.protocol.api_keys import ApiKey

MAY_FOLLOW: dict[int, frozenset[int]] = {ApiKey.Produce: frozenset({ApiKey.Produce})}
NOTHING: frozenset[int] = frozenset()


class Order:
    """The requests of one connection that are under way, and which may begin beside them."""

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
