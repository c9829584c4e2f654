"""Whatever the network and the disks do: one leader per term, and nothing committed is lost or differs."""

from __future__ import annotations

import pytest

from .simulation.world import Violation, World

STEPS = 2500


@pytest.mark.parametrize("seed", range(40))
def test_nothing_committed_is_lost_or_differs(seed: int) -> None:
    world = World(seed)
    world.run(STEPS)
    world.finish()
    assert world.tally.commits > 0
    assert world.tally.crashes > 0


@pytest.mark.parametrize("seed", range(20))
def test_one_leader_per_term_in_a_storm_of_elections(seed: int) -> None:
    world = World(seed, stormy=True)
    world.run(STEPS)
    world.finish()
    assert world.tally.crashes > 10


def test_the_seeds_reach_what_they_are_for() -> None:
    tallies = []
    for seed in (0, 1, 2, 3, 7, 11, 15):
        world = World(seed)
        world.run(STEPS)
        tallies.append(world.tally)
    assert sum(tally.snapshots for tally in tallies) > 5
    assert sum(tally.memberships for tally in tallies) > 10
    assert sum(tally.fetches for tally in tallies) > 20
    assert sum(tally.reads for tally in tallies) > 5
    assert sum(tally.quiet for tally in tallies) > 0


def test_a_seed_repeats_itself() -> None:
    traces = []
    for _ in range(2):
        world = World(13)
        world.run(STEPS)
        traces.append(world.trace)
    assert len(traces[0]) > 100
    assert traces[0] == traces[1]


@pytest.mark.parametrize("bug", ["vote not persisted", "persisted before the write", "truncation forgotten"])
def test_a_planted_bug_is_caught(bug: str) -> None:
    def run_the_seeds() -> None:
        for seed in range(100):
            world = World(seed, bug=bug, stormy=True)
            world.run(STEPS)
            world.finish()

    with pytest.raises(Violation, match="seed"):
        run_the_seeds()
