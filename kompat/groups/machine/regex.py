"""Regular expressions for topic names: RE2's syntax, matched by Rust's `regex` in linear time.

The expressions come from clients and run on the broker, so backtracking (and with it Python's `re`) is out: one expression
could stop everything. What RE2 and Rust write differently is translated; the size of both the text and what it is compiled to is
bounded before anything is matched.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from kompat._native import NamePattern
from kompat.groups.machine.regex_syntax import (
    Assert,
    Chars,
    Choice,
    Node,
    RegexSyntaxError,
    Repeat,
    parse,
)

MAX_LENGTH = 4_096  # characters
MAX_COMPILED_BYTES = 128 * 1024
MAX_CACHE_BYTES = 1024 * 1024
MAX_KEPT = 64  # expressions, with what is known of names
_NOTHING = r"[^\x00-\xff]"
_ASSERTIONS = {"start": r"\A", "end": r"\z", "boundary": r"\b", "inside": r"\B"}


class TopicRegex:
    """A compiled expression; raises RegexSyntaxError where RE2 would not take it, or where it is too large.

    What is known of names is kept: topics come and go one by one, and all others need not be looked at again.
    """

    __slots__ = ("_matching", "_pattern", "_seen")

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_LENGTH:
            raise RegexSyntaxError(f"the expression is longer than {MAX_LENGTH} characters")
        try:
            translated = rf"\A(?:{_translated(parse(pattern))})\z"
            self._pattern = NamePattern(translated, MAX_COMPILED_BYTES, MAX_CACHE_BYTES, unicode=False)
        except ValueError as error:
            raise RegexSyntaxError(str(error)) from None
        self._seen: set[str] = set()
        self._matching: set[str] = set()

    def matches(self, name: str) -> bool:
        """Does the whole name match?"""
        return bool(self._pattern.select([name]))

    def unseen(self, names: Collection[str]) -> Sequence[str]:
        """Those that have not been looked at yet."""
        return [name for name in names if name not in self._seen]

    def look_at(self, names: Sequence[str]) -> None:
        """Find out which of them match, so that `select` knows."""
        self._seen.update(names)
        self._matching.update(self._pattern.select(names))

    def select(self, names: Collection[str]) -> frozenset[str]:
        self.look_at(self.unseen(names))
        if len(self._seen) > 2 * len(names):  # of topics that are gone
            self._seen.intersection_update(names)
            self._matching.intersection_update(names)
        return frozenset(name for name in self._matching if name in names)


@lru_cache(MAX_KEPT)
def compiled(pattern: str) -> TopicRegex | None:
    """None for one that is invalid."""
    try:
        return TopicRegex(pattern)
    except RegexSyntaxError:
        return None


def _translated(node: Node) -> str:
    if isinstance(node, Chars):
        return _class(node.chars)
    if isinstance(node, Assert):
        return _ASSERTIONS[node.kind]
    if isinstance(node, Repeat):
        bounds = f"{{{node.low},{'' if node.high is None else node.high}}}"
        return f"(?:{_translated(node.node)}){bounds}"
    if isinstance(node, Choice):
        return f"(?:{'|'.join(map(_translated, node.options))})"
    return "".join(map(_translated, node.parts))


def _class(chars: frozenset[str]) -> str:
    if len(chars) == 1:
        return re.escape(next(iter(chars)))
    return f"[{''.join(map(re.escape, sorted(chars)))}]" if chars else _NOTHING
