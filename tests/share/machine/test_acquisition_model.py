"""Whatever the interleaving: each record is acknowledged, archived or still deliverable, and one member has it at a time."""

from __future__ import annotations

import pytest

from tests.share.random_members import STEPS, Walk


@pytest.mark.parametrize("seed", range(40))
def test_no_record_is_lost_or_had_by_two_whatever_happens(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.finish()
    assert walk.redeliveries > 10 or walk.settings.max_locks < 10
