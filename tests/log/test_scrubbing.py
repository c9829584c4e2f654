"""The scrubber finds what has rotted though nobody reads it, and what lies around it."""

from __future__ import annotations

import logging

import pytest

from kompat.log.scrubbing import Scrubber, ScrubSettings
from tests.log.support import Log, run
from tests.simulator.disk import SimPartition

FAST = ScrubSettings(bytes_per_second=1 << 40)


def _filled(*damaged: int) -> Log:
    log = Log(cache=0)
    for value in (b"a", b"b", b"c", b"d"):
        log.append(value)
    store = log.partition.store
    assert isinstance(store, SimPartition)
    for base in damaged:
        store.damage(base)
    return log


def test_all_that_is_whole_is_counted_and_a_round_is_told(caplog: pytest.LogCaptureFixture) -> None:
    log = _filled()
    scrubber = Scrubber(FAST, lambda: [log.partition])

    with caplog.at_level(logging.INFO):
        run(scrubber.scrub_all())

    assert scrubber.bytes == log.partition.size
    assert log.partition.damages.found == 0
    assert "compared with their checksums" in caplog.text


@pytest.mark.parametrize("damaged", [(0,), (1, 3), (0, 1, 2, 3)])
def test_what_is_damaged_is_counted_once_and_the_rest_is_looked_at(damaged: tuple[int, ...]) -> None:
    log = _filled(*damaged)
    scrubber = Scrubber(FAST, lambda: [log.partition])

    run(scrubber.scrub_all())
    assert log.partition.damages.found == len(damaged)
    assert scrubber.bytes == log.partition.size * (4 - len(damaged)) // 4

    run(scrubber.scrub_all())
    assert log.partition.damages.found == len(damaged)


def test_it_reads_no_faster_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    log, rests = _filled(), []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr("kompat.log.scrubbing.asyncio.sleep", sleep)
    run(Scrubber(ScrubSettings(bytes_per_second=10), lambda: [log.partition]).scrub_all())

    assert sum(rests) == pytest.approx(log.partition.size / 10)
