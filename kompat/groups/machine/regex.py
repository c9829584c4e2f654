"""Regular expressions for topic names that match in linear time.

The expressions come from clients and run on the broker, so backtracking (and with it Python's `re`) is out: one expression
could stop everything. Here a name is walked once, with the set of states it may be in; those sets are kept as they come up.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kompat.groups.machine.regex_syntax import (
    ALPHABET,
    Assert,
    Chars,
    Choice,
    Node,
    RegexSyntaxError,
    Repeat,
    Sequence,
    parse,
)

MAX_STATES = 5_000
MAX_KEPT_STEPS = 20_000

_EDGE, _WORD, _OTHER = 0, 1, 2  # what stands beside a position: nothing, a word character, another


class _State(NamedTuple):
    """A state of the automaton: it eats one of `chars`, or checks `assertion`, or just forks to `targets`."""

    targets: tuple[int, ...]
    chars: frozenset[str] | None = None
    assertion: str | None = None


def _kind(char: str) -> int:
    return _OTHER if char in ".-" else _WORD


def _holds(assertion: str, before: int, after: int) -> bool:
    if assertion == "start":
        return before == _EDGE
    if assertion == "end":
        return after == _EDGE
    return ((before == _WORD) != (after == _WORD)) == (assertion == "boundary")


class TopicRegex:
    """A compiled expression; raises RegexSyntaxError where RE2 would not take it."""

    def __init__(self, pattern: str) -> None:
        self._states: list[_State] = []
        accept = self._add(_State(()))
        self._accept = accept
        self._start = (frozenset({self._compile(parse(pattern), accept)}), _EDGE)
        self._steps: dict[tuple[frozenset[int], int, str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        """Does the whole name match?"""
        states, before = self._start
        for char in name:
            if char not in ALPHABET:
                return False
            states = self._step(states, before, char)
            if not states:
                return False
            before = _kind(char)
        return self._accept in self._closure(states, before, _EDGE)

    def select(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(name for name in names if self.matches(name))

    def _step(self, states: frozenset[int], before: int, char: str) -> frozenset[int]:
        key = (states, before, char)
        known = self._steps.get(key)
        if known is not None:
            return known
        reached = frozenset(
            self._states[number].targets[0]
            for number in self._closure(states, before, _kind(char))
            if (chars := self._states[number].chars) is not None and char in chars
        )
        if len(self._steps) >= MAX_KEPT_STEPS:
            self._steps.clear()
        self._steps[key] = reached
        return reached

    def _closure(self, states: frozenset[int], before: int, after: int) -> set[int]:
        """All states that are reached without eating a character."""
        found = set(states)
        todo = list(states)
        while todo:
            state = self._states[todo.pop()]
            if state.chars is not None or (state.assertion and not _holds(state.assertion, before, after)):
                continue
            for target in state.targets:
                if target not in found:
                    found.add(target)
                    todo.append(target)
        return found

    def _add(self, state: _State) -> int:
        if len(self._states) >= MAX_STATES:
            raise RegexSyntaxError("the expression is too large")
        self._states.append(state)
        return len(self._states) - 1

    def _compile(self, node: Node, then: int) -> int:
        """The state that begins the node and goes on to `then`."""
        if isinstance(node, Chars):
            return self._add(_State((then,), chars=node.chars))
        if isinstance(node, Assert):
            return self._add(_State((then,), assertion=node.kind))
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                then = self._compile(part, then)
            return then
        if isinstance(node, Choice):
            return self._add(_State(tuple(self._compile(option, then) for option in node.options)))
        return self._compile_repeat(node, then)

    def _compile_repeat(self, node: Repeat, then: int) -> int:
        if node.high is None:
            loop = self._add(_State(()))
            self._states[loop] = _State((self._compile(node.node, loop), then))
            then = loop
        else:
            end = then
            for _ in range(node.high - node.low):
                then = self._add(_State((self._compile(node.node, then), end)))
        for _ in range(node.low):
            then = self._compile(node.node, then)
        return then
