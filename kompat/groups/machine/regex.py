"""Regular expressions for topic names: RE2's syntax, as Kafka takes it, matched by Rust's `regex` in linear time.

The expressions come from clients and run on the broker, so backtracking (and with it Python's `re`) is out: one expression
could stop everything. The size of both the text and what it is compiled to is bounded before anything is matched.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache

from kompat._native import NamePattern

MAX_KEPT = 64  # cached expressions, with the results for names


class TopicRegex:
    """A compiled expression; raises ValueError with the reason if RE2 would not accept it, or if it is too large.

    Results for names are cached: topics are created one by one, and the others need not be matched again.
    """

    __slots__ = ("_matching", "_pattern", "_seen")

    def __init__(self, pattern: str) -> None:
        self._pattern = NamePattern(pattern)
        self._seen: set[str] = set()
        self._matching: set[str] = set()

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        return bool(self._pattern.select([name]))

    def unseen(self, names: Collection[str]) -> Sequence[str]:
        """Those that have not been matched yet."""
        return [name for name in names if name not in self._seen]

    def look_at(self, names: Sequence[str]) -> None:
        """Match these names, so that `select` has the results."""
        self._seen.update(names)
        self._matching.update(self._pattern.select(names))

    def select(self, names: Collection[str]) -> frozenset[str]:
        self.look_at(self.unseen(names))
        if len(self._seen) > 2 * len(names):  # of deleted topics
            self._seen.intersection_update(names)
            self._matching.intersection_update(names)
        return frozenset(name for name in self._matching if name in names)


@lru_cache(MAX_KEPT)
def compiled(pattern: str) -> TopicRegex | None:
    """None for one that is invalid."""
    try:
        return TopicRegex(pattern)
    except ValueError:
        return None
