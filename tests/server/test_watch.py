from dataclasses import replace

from kompat.server.limits import Budget, Limits
from kompat.server.watch import Progress, Watch

LIMITS = Limits(idle_seconds=600, stall_seconds=30, unread_seconds=330, stall_bytes=1000)
NOTHING = Progress(received=0, frames=0, sent=0, is_mid_frame=False, is_unread=False, is_busy=False)


def verdict(watch: Watch, progress: Progress, now: float, *, is_memory_short: bool = False) -> str | None:
    return watch.verdict(progress, now, is_memory_short=is_memory_short)


def test_a_quiet_connection_is_idle_after_the_idle_time() -> None:
    watch = Watch(LIMITS, now=0)

    assert verdict(watch, NOTHING, 599) is None
    assert verdict(watch, NOTHING, 600) == "idle"


def test_traffic_starts_the_idle_time_again() -> None:
    watch = Watch(LIMITS, now=0)

    assert verdict(watch, replace(NOTHING, received=50, frames=1, sent=20), 500) is None
    assert verdict(watch, replace(NOTHING, received=50, frames=1, sent=20), 1099) is None
    assert verdict(watch, replace(NOTHING, received=50, frames=1, sent=20), 1100) == "idle"


def test_a_connection_with_a_request_under_way_is_not_idle() -> None:
    watch = Watch(LIMITS, now=0)

    assert verdict(watch, replace(NOTHING, is_busy=True), 10_000) is None


def test_half_a_frame_without_the_rest_is_closed() -> None:
    watch = Watch(LIMITS, now=0)
    half = replace(NOTHING, received=10, is_mid_frame=True)

    assert verdict(watch, half, 1) is None
    assert verdict(watch, half, 31) is not None


def test_a_byte_now_and_then_does_not_keep_half_a_frame_open() -> None:
    watch = Watch(LIMITS, now=0)

    verdicts = [verdict(watch, replace(NOTHING, received=n, is_mid_frame=True), n) for n in range(1, 40)]

    assert verdicts[28] is None
    assert verdicts[30] is not None


def test_a_large_frame_that_keeps_coming_is_left_alone() -> None:
    watch = Watch(LIMITS, now=0)

    for n in range(1, 1000):
        assert verdict(watch, replace(NOTHING, received=n * 100, is_mid_frame=True), n) is None


def test_small_frames_cut_in_half_by_the_sweep_are_progress() -> None:
    watch = Watch(LIMITS, now=0)

    for n in range(1, 1000):
        assert verdict(watch, replace(NOTHING, received=n * 10, frames=n, is_mid_frame=True), n * 20) is None


def test_unread_answers_are_given_longer_than_a_consumer_may_stay_away() -> None:
    watch = Watch(LIMITS, now=0)
    unread = replace(NOTHING, is_unread=True)

    assert verdict(watch, unread, 300) is None
    assert verdict(watch, unread, 330) is not None


def test_unread_answers_are_given_less_time_when_memory_is_short() -> None:
    watch = Watch(LIMITS, now=0)
    unread = replace(NOTHING, is_unread=True)

    assert verdict(watch, unread, 29, is_memory_short=True) is None
    assert verdict(watch, unread, 30, is_memory_short=True) is not None


def test_a_slow_reader_is_left_alone() -> None:
    watch = Watch(LIMITS, now=0)

    for n in range(1, 100):
        assert verdict(watch, replace(NOTHING, sent=n * 1000, is_unread=True), n * 300) is None


def test_who_waits_for_the_budget_is_woken_in_order_once_half_of_it_is_free() -> None:
    budget = Budget(100)
    woken: list[str] = []
    budget.take(120)
    assert budget.is_spent
    budget.wait("a", lambda: woken.append("a"))
    budget.wait("b", lambda: woken.append("b"))

    budget.give_back(60)
    assert not woken
    budget.give_back(10)

    assert woken == ["a", "b"]
    budget.give_back(50)
    assert woken == ["a", "b"], "woken once for each time they ask"


def test_who_left_is_not_woken() -> None:
    budget = Budget(100)
    woken: list[str] = []
    budget.take(100)
    budget.wait("a", lambda: woken.append("a"))

    budget.forget("a")
    budget.give_back(100)

    assert not woken
