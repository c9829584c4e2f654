from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kompat.server.limits import Budget, Limits
from kompat.server.watch import Progress, Watch

LIMITS = Limits(scarce_seconds=2, idle_seconds=600, stall_seconds=30, unread_seconds=330, stall_bytes=1000)
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


def test_half_a_request_and_unread_answers_are_given_little_time_when_others_wait_for_memory() -> None:
    for held in (
        replace(NOTHING, received=10, is_mid_frame=True, promised=8000),
        replace(NOTHING, is_unread=True, unread=8000),
    ):
        watch = Watch(LIMITS, now=0)
        assert verdict(watch, held, 20) is None

        assert verdict(watch, held, 21, is_memory_short=True) is None, "it has had no time yet"
        assert verdict(watch, held, 22.9, is_memory_short=True) is None
        assert verdict(watch, held, 23, is_memory_short=True) is not None


def test_what_moves_by_an_eighth_is_left_alone_when_others_wait_for_memory() -> None:
    watch, slow = Watch(LIMITS, now=0), Watch(LIMITS, now=0)
    half = replace(NOTHING, is_mid_frame=True, promised=8000)

    for n in range(1, 8):
        assert verdict(watch, replace(half, received=n * 1000), n, is_memory_short=True) is None
    verdicts = [verdict(slow, replace(half, received=n * 100), n, is_memory_short=True) for n in range(1, 8)]
    assert verdicts[1] is None
    assert verdicts[-1] is not None


def test_time_without_memory_is_counted_anew_each_time() -> None:
    watch = Watch(LIMITS, now=0)
    half = replace(NOTHING, received=10, is_mid_frame=True, promised=8000)

    for now in (1, 4, 7, 10):
        assert verdict(watch, half, now, is_memory_short=True) is None
        assert verdict(watch, half, now + 1) is None


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


def test_the_budget_tells_once_that_it_is_spent_and_once_that_somebody_waits() -> None:
    budget = Budget(100)
    told: list[str] = []
    budget.on_spent = lambda: told.append("spent")
    budget.on_short = lambda: told.append("short")

    for _ in range(3):
        budget.take(50)
    for who in "ab":
        budget.wait(who, lambda: None)

    assert told == ["spent", "short"]
    assert budget.is_short
    budget.give_back(150)
    assert not budget.is_short


def test_a_long_request_waits_until_those_before_it_have_come_and_short_ones_do_not() -> None:
    budget = Budget(100)
    woken: list[str] = []
    assert budget.expect("a", 70, lambda: None)

    assert not budget.expect("b", 40, lambda: woken.append("b"))
    assert not budget.expect("c", 10, lambda: woken.append("c")), "it came later"
    assert not budget.is_spent, "what is promised is no memory"
    budget.arrived(5)
    assert not woken
    budget.arrived(5)

    assert woken == ["b"]
    assert budget.expect("b", 40, lambda: None)
    assert not budget.expect("c", 10, lambda: None)
    budget.arrived(60)
    assert woken == ["b", "c"]


def test_a_long_request_that_has_begun_to_come_goes_before_those_that_have_not() -> None:
    budget = Budget(100)
    woken: list[str] = []
    assert budget.expect("a", 60, lambda: None)
    assert budget.expect("b", 40, lambda: None)
    assert not budget.expect("c", 50, lambda: woken.append("c"))

    budget.arrived(40)
    assert not budget.expect("b", 50, lambda: woken.append("b"), is_begun=True)
    budget.arrived(60)

    assert woken == ["b"]
    assert not budget.expect("c", 50, lambda: None)
    assert budget.expect("b", 50, lambda: None, is_begun=True)
    assert woken == ["b", "c"]
    assert budget.expect("c", 50, lambda: None)


def test_a_long_request_is_let_in_alone_however_long_it_is() -> None:
    budget = Budget(100)
    budget.take(90)

    assert budget.expect("a", 500, lambda: None)


def test_who_waits_in_the_place_of_one_that_left_is_called() -> None:
    budget = Budget(100)
    woken: list[str] = []
    assert budget.expect("a", 60, lambda: None)
    assert not budget.expect("b", 90, lambda: woken.append("b"))
    assert not budget.expect("c", 20, lambda: woken.append("c"))

    budget.forget("b")

    assert woken == ["c"]


@given(st.lists(st.integers(1, 180), max_size=40), st.data())
def test_every_long_request_comes_in_its_turn_and_never_more_than_fits(sizes: list[int], data: st.DataObject) -> None:
    budget, called, coming, waiting = Budget(100), set[int](), dict[int, int](), dict[int, int]()

    def ask(number: int, size: int) -> None:
        if budget.expect(number, size, lambda: called.add(number)):
            waiting.pop(number, None)
            coming[number] = size
            assert budget.outstanding <= max(100, size)
        else:
            waiting[number] = size

    for number, size in enumerate(sizes):
        ask(number, size)
    while coming:
        number = data.draw(st.sampled_from(sorted(coming)))
        budget.arrived(coming.pop(number))
        while called:
            next_one = called.pop()
            ask(next_one, waiting[next_one])
    assert not waiting
    assert budget.outstanding == 0
