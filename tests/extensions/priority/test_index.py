"""What a partition knows of its records' classes and times: written with their batch, found again by class and offset."""

from hypothesis import given
from hypothesis import strategies as st

from kompat.extensions.priority import headers as priority
from kompat.extensions.priority.order import NEVER, RankedBatch, RankedRun
from kompat.types import Millis
from tests.extensions.support import ExtendedLog, message
from tests.log.support import NOW


def known(log: ExtendedLog, class_: int, first: int = 0) -> list[RankedRun]:
    return [run for batch in log.interceptor.priorities.find(class_, first, 1 << 40, 1000) for run in batch.runs]


def test_neighbours_of_one_class_are_one_run() -> None:
    log = ExtendedLog()
    log.send_all([message("v", now=NOW, **asked) for asked in ({"priority": 9}, {"priority": "critical"}, {})])
    log.send_all([message("v", now=NOW, priority=9)])

    assert known(log, 9) == [(0, 1, NEVER), (3, 3, NEVER)]
    assert known(log, 9, first=2) == [(3, 3, NEVER)]
    assert log.interceptor.priorities.newest() == (-1,) * 9 + (3,)


def test_the_default_class_is_not_written_down_unless_it_ends() -> None:
    log = ExtendedLog()
    log.send("a", priority=4)
    assert log.interceptor.priorities.newest() is None
    log.send("b", ttl_ms=5)

    assert known(log, 4) == [(1, 1, log.now + 5)]


def test_what_is_refused_waits_or_repeats_is_not_written_down() -> None:
    log = ExtendedLog()
    log.refused(priority=10)
    log.send("first", msg_id="m")
    log.send("again", msg_id="m", priority=9)
    log.send("later", delay_ms=1000, priority=9)
    assert log.interceptor.priorities.newest() is None

    log.pass_time(1000)
    assert known(log, 9) == [(3, 3, NEVER)]


def test_a_time_to_live_counts_from_the_delivery() -> None:
    log = ExtendedLog()
    log.send("v", delay_ms=1000, ttl_ms=50)
    log.pass_time(3000)

    assert known(log, 4) == [(1, 1, log.now + 50)]


def test_it_is_there_after_a_crash_or_not_at_all() -> None:
    log = ExtendedLog()
    log.send("v", priority=9)
    log.stage_all([message("v", now=NOW, priority=9)])
    log.kill()

    assert known(log, 9) == [(0, 0, NEVER)]
    assert log.interceptor.priorities.newest() == (-1,) * 9 + (0,)


@given(
    came=st.integers(0, 2**50),
    base=st.integers(0, 2**50),
    steps=st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 1000), st.integers(0, NEVER)), min_size=1),
)
def test_a_batch_is_read_as_it_was_written(came: int, base: int, steps: list[tuple[int, int, int]]) -> None:
    runs = []
    for gap, length, expires in steps:
        runs.append(RankedRun(base + gap, base + gap + length, expires))
        base = runs[-1].last
    batch = RankedBatch(Millis(came), runs)

    assert priority.decode(priority.encode(batch)) == batch
