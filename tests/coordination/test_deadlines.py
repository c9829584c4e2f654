"""Deadlines: the one due longest comes first, and moving or cancelling one leaves nothing behind."""

from hypothesis import given
from hypothesis import strategies as st

from kompat.coordination.deadlines import Timers
from kompat.types import Millis


def test_what_is_due_comes_in_order_of_its_deadline() -> None:
    timers: Timers[str, int] = Timers()
    for key, deadline in (("late", 30), ("early", 10), ("middle", 20)):
        timers.schedule(key, Millis(deadline), deadline)

    assert timers.next_deadline() == 10
    assert timers.pop_due(Millis(20)) == ("early", 10)
    assert timers.pop_due(Millis(20)) == ("middle", 20)
    assert timers.pop_due(Millis(20)) is None
    assert timers.next_deadline() == 30


def test_a_deadline_that_is_put_off_again_and_again_stays_one_entry() -> None:
    timers: Timers[str, None] = Timers()
    for deadline in range(1, 1000):
        timers.schedule("member", Millis(deadline), None)

    assert len(timers._heap) == 1
    assert timers.next_deadline() == 999


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 50)), max_size=60))
def test_timers_behave_as_a_plain_table_would(steps: list[tuple[int, int | None]]) -> None:
    timers: Timers[int, int] = Timers()
    table: dict[int, int] = {}
    for key, deadline in steps:
        if deadline is None:
            timers.cancel(key)
            table.pop(key, None)
        else:
            timers.schedule(key, Millis(deadline), deadline)
            table[key] = deadline
        assert timers.next_deadline() == min(table.values(), default=None)
    fired = []
    while (due := timers.pop_due(Millis(50))) is not None:
        fired.append(due)
    assert sorted(fired) == sorted(table.items())
    assert [deadline for _, deadline in fired] == sorted(table.values())
    assert len(timers) == 0


def test_all_are_moved_together() -> None:
    timers: Timers[str, int] = Timers()
    timers.schedule("early", Millis(10), 1)
    timers.schedule("late", Millis(20), 2)
    timers.schedule("late", Millis(40), 2)  # put off, which its place in the heap does not show yet
    timers.schedule("gone", Millis(5), 3)
    timers.cancel("gone")

    timers.shift(1000)

    assert timers.next_deadline() == 1010
    assert timers.pop_due(Millis(1010)) == ("early", 1)
    assert timers.pop_due(Millis(1039)) is None
    assert timers.pop_due(Millis(1040)) == ("late", 2)
