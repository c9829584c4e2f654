"""The turns of the group commit that a partition takes part in."""

from typing import cast

from kompat.common.promise import Promise
from kompat.log.commit import GroupCommit
from kompat.log.turns import Turns
from kompat.types import Offset


class Commits:
    """Each turn ends when the test says so."""

    def __init__(self) -> None:
        self.current: Promise[None] = Promise()

    def turn(self) -> Promise[None]:
        return self.current

    def end(self, error: Exception | None = None) -> None:
        ended, self.current = self.current, Promise()
        ended.end(error)


def a_log() -> tuple[Commits, Turns, list[Offset]]:
    commits, written = Commits(), list[Offset]()
    return commits, Turns(cast("GroupCommit", commits), written.append), written


def test_a_turn_tells_once_how_far_it_has_written() -> None:
    commits, turns, written = a_log()
    turns.join(Offset(1))
    turns.join(Offset(3))
    commits.end()
    assert written == [3]
    assert turns.newest is None


def test_a_turn_that_was_refused_tells_nothing() -> None:
    commits, turns, written = a_log()
    turns.join(Offset(1))
    commits.end(OSError("no space"))
    assert written == []


def test_what_went_back_to_before_a_turn_does_not_hear_of_it() -> None:
    commits, turns, written = a_log()
    first = turns.join(Offset(1))
    held, commits.current = commits.current, Promise()
    second = turns.join(Offset(5))
    assert turns.newest is second
    assert turns.writing(Offset(0)) is first
    assert turns.writing(Offset(4)) is second

    turns.rewind(Offset(1))
    commits.end()
    held.resolve()
    assert written == [1]
