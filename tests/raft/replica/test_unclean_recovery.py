"""Replicas that may lack what they have promised: when those whose directories were put back go on by themselves."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from kompat.raft.replica.unclean_recovery import UncleanRecovery

PATIENCE = 10.0


class Clockwork:
    """A host with a clock of its own; `here` are the brokers that it reaches."""

    def __init__(self, *here: int) -> None:
        self.here = set(here)
        self.now = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._due.append((self.now + seconds, call))

    def is_here(self, node: int) -> bool:
        return node in self.here

    def run_until(self, moment: float) -> None:
        while self._due and min(self._due, key=lambda each: each[0])[0] <= moment:
            next_one = min(self._due, key=lambda each: each[0])
            self._due.remove(next_one)
            self.now = next_one[0]
            next_one[1]()
        self.now = moment


def put_back(host: Clockwork) -> UncleanRecovery:
    replica: Any = SimpleNamespace(
        partition=SimpleNamespace(is_dropped=False),
        is_installing=False,
        group=SimpleNamespace(leader=0, is_leader=False, muted=False),
        log=SimpleNamespace(members=SimpleNamespace(voters=[1, 2, 3]), is_whole=True),
    )
    recovery = UncleanRecovery(replica, cast("Any", host))
    recovery.begin(is_silent=True, seconds=PATIENCE)
    return recovery


def test_replicas_that_were_put_back_count_from_the_moment_at_which_all_voters_are_here() -> None:
    host = Clockwork(1, 2)
    recovery = put_back(host)

    host.run_until(2 * PATIENCE)
    assert recovery.is_open  # one that is away may have more
    host.here.add(3)
    host.run_until(3 * PATIENCE - 1)
    assert recovery.is_open  # the last one to come counts as long as the first ones: they vote together
    host.run_until(3 * PATIENCE + 1)
    assert not recovery.is_open


def test_a_voter_that_goes_away_meanwhile_is_waited_for_anew() -> None:
    host = Clockwork(1, 2, 3)
    recovery = put_back(host)

    host.run_until(PATIENCE - 1)
    host.here.remove(2)
    host.run_until(PATIENCE)
    host.here.add(2)
    host.run_until(2 * PATIENCE - 1)
    assert recovery.is_open
    host.run_until(2 * PATIENCE + 1)
    assert not recovery.is_open
