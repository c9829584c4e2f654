"""Bars, and who gets to see them."""

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cli.progress import Progress, bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@settings(deadline=None)
@given(st.integers(0, 10**9), st.none() | st.integers(0, 10**9), st.floats(0, 10**5), st.integers(1, 200))
def test_a_bar_never_wraps(done: int, total: int | None, seconds: float, width: int) -> None:
    assert len(bar(done, total, "sent", seconds, width)) <= width


def test_a_bar_tells_how_far_it_is_and_how_long_it_takes() -> None:
    assert bar(50, 100, "sent", 10, 80) == "sent [############............]  50% 5/s 10 s left"
    assert bar(50, None, "sent", 10, 80) == "sent 50 5/s"


def test_nobody_is_told_where_nobody_watches() -> None:
    stream = io.StringIO()
    with Progress("sent", 10, stream) as progress:
        progress._next = 0.0
        progress.add(5)

    assert stream.getvalue() == ""


def test_the_line_is_gone_afterwards() -> None:
    stream = Terminal()
    with Progress("sent", 10, stream) as progress:
        progress._next = 0.0
        progress.add(5)

    assert "50%" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")
