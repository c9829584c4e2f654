"""A repeated error costs a line once in a while, and nothing of it is kept without a bound."""

from kompat.common.repeated import EVERY_SECONDS, MOST, Repeated, times


def test_the_first_is_logged_and_the_others_are_counted_into_the_next_line() -> None:
    repeated = Repeated()
    assert [repeated.count("full", at) for at in (0.0, 1.0, EVERY_SECONDS - 0.1)] == [1, 0, 0]
    assert repeated.count("another", 1.0) == 1
    assert repeated.count("full", EVERY_SECONDS) == 3
    assert repeated.count("full", EVERY_SECONDS + 1) == 0


def test_what_is_remembered_is_bounded() -> None:
    repeated = Repeated()
    for each in range(MOST + 10):
        repeated.count(each, 0.0)
    assert repeated.count(MOST + 9, 1.0) == 0
    assert repeated.count(0, 1.0) == 1


def test_a_line_says_how_often_it_stands_for() -> None:
    assert times(1) == ""
    assert times(3) == " (3 times since the last line about it)"
