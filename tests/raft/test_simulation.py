"""Clusters to which everything happens that can: lost, doubled, late and reordered messages, cut links, dead brokers and machines,
full disks, wrong clocks, while members change, leaders move and logs are copied.

Each seed is a life of its own. KOMPAT_SIM_SEEDS=5000 lives through more of them, KOMPAT_SIM_FIRST=17 KOMPAT_SIM_SEEDS=1
through that of seed 17 again.
"""

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest

from kompat.log.commit import GroupCommit
from kompat.raft.engine import Ready
from kompat.raft.replica.log import ReplicaLog
from kompat.raft.replica.ready_loop import ReadyLoop
from kompat.raft.replication import Replication
from kompat.raft.states import Hard
from tests.simulator.chaos import simulate
from tests.simulator.history import History, Violation

pytestmark = pytest.mark.slow

FIRST = int(os.environ.get("KOMPAT_SIM_FIRST", "0"))
SEEDS = int(os.environ.get("KOMPAT_SIM_SEEDS", "300"))
PARTS = min(SEEDS, 8)
MOST_SEEDS = 200  # that a mistake may survive


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """Everything that is warned of happens here all the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(0 if SEEDS > 1000 else 120)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_that_was_acknowledged_is_lost_or_changed(part: int) -> None:
    for seed in range(FIRST + part, FIRST + SEEDS, PARTS):
        simulate(seed)


@pytest.mark.parametrize("part", range(2))
def test_no_two_brokers_lead_in_one_epoch(part: int) -> None:
    for seed in range(FIRST + part, FIRST + min(SEEDS, 1000) // 4, 2):
        simulate(seed, elections=True)


@pytest.mark.parametrize("part", range(2))
def test_what_rots_on_one_disk_is_neither_shown_nor_spread_and_is_mended_in_the_end(part: int) -> None:
    lives = [simulate(seed, rot=True) for seed in range(FIRST + part, FIRST + min(SEEDS, 1000) // 4, 2)]
    assert sum(life.rotten for life in lives) >= len(lives)


@pytest.mark.parametrize("part", range(2))
def test_nothing_is_lost_when_disks_are_emptied_and_put_back_while_others_are_down(part: int) -> None:
    for seed in range(FIRST + part, FIRST + min(SEEDS, 3000), 2):
        simulate(seed, disks=True)


def test_much_happens_in_a_life() -> None:
    lives = [simulate(seed) for seed in range(1000, 1012)]

    def total(count: Callable[[History], int]) -> int:
        return sum(map(count, lives))

    assert total(lambda life: len(life.acknowledged)) > 150
    assert total(lambda life: len(life.leaders)) > len(lives)
    assert total(lambda life: len(life.writes)) > 20
    assert total(lambda life: len(life.copied)) > 0
    assert total(lambda life: life.start) > 0


def test_a_seed_lives_the_same_life_again() -> None:
    for seed in (3, 4, 5):
        first, again = simulate(seed), simulate(seed)
        assert first.committed == again.committed
        assert first.leaders == again.leaders
        assert first.acknowledged == again.acknowledged


# -- mistakes are found ------------------------------------------------------------------------------------------------
def _first_violation(*, elections: bool, disks: bool) -> tuple[int, str]:
    for seed in range(MOST_SEEDS):
        try:
            simulate(seed, elections=elections, disks=disks)
        except Violation as violation:
            return seed, str(violation)
    raise AssertionError(f"{MOST_SEEDS} seeds found nothing")


def _check_that_it_is_found(*, elections: bool = False, disks: bool = False) -> None:
    """And found again with the seed that the message tells."""
    seed, message = _first_violation(elections=elections, disks=disks)
    assert message.startswith(f"seed {seed}: ")
    with pytest.raises(Violation) as again:
        simulate(seed, elections=elections, disks=disks)
    assert str(again.value) == message


def test_a_vote_that_is_not_kept_is_found() -> None:
    encode = Hard.encode
    with patch.object(Hard, "encode", lambda hard: encode(hard._replace(vote=0))):
        _check_that_it_is_found(elections=True)


def test_votes_that_are_not_forced_to_the_disk_are_found() -> None:
    def forgetful(commit: GroupCommit, turn: Any) -> None:
        commit._must_sync = False
        commit._end([turn], None)

    with patch.object(GroupCommit, "_written", forgetful):
        _check_that_it_is_found()


def test_a_commit_that_is_counted_early_is_found() -> None:
    take = ReadyLoop._take_entries

    def hasty(loop: ReadyLoop, ready: Ready) -> None:
        take(loop, ready)
        while loop._waiting:  # as if it were on the disk
            waiting = loop._waiting.popleft()
            loop._persisted(waiting.number, waiting.messages)

    with patch.object(ReadyLoop, "_take_entries", hasty):
        _check_that_it_is_found()


def test_a_truncation_that_is_forgotten_is_found() -> None:
    with patch.object(ReplicaLog, "conflicts", lambda log, entries: None):
        _check_that_it_is_found()


def test_states_that_are_not_applied_are_found() -> None:
    with patch.object(ReplicaLog, "apply_states", lambda log, payload: None):
        _check_that_it_is_found()


def test_a_voter_that_has_lost_its_disk_and_votes_at_once_is_found() -> None:
    with patch.object(Replication, "_look_for_losses", lambda replication, replica: None):
        _check_that_it_is_found(disks=True)
