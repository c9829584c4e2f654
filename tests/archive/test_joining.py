"""Every wanted offset is read once, wherever it is."""

from hypothesis import given
from hypothesis import strategies as st

from kompat.archive.joining import join
from kompat.archive.manifest import Span

LONG = Span(0, 1 << 62)


def test_the_log_goes_on_where_the_archive_ends() -> None:
    assert join([Span(0, 50)], Span(30, 80), LONG) == ([Span(0, 50)], [Span(50, 80)], [])


def test_what_neither_has_is_told() -> None:
    assert join([Span(0, 20)], Span(30, 80), LONG) == ([Span(0, 20)], [Span(30, 80)], [Span(20, 30)])


def test_a_log_that_is_gone_leaves_the_archive() -> None:
    assert join([Span(5, 20)], Span(0, 0), LONG) == ([Span(5, 20)], [], [])


def test_only_what_is_wanted_is_read() -> None:
    assert join([Span(0, 50)], Span(30, 80), Span(40, 60)) == ([Span(40, 50)], [Span(50, 60)], [])


def offsets(spans: object) -> list[int]:
    return [n for span in spans for n in range(span.start, span.end)]  # type: ignore[attr-defined]


@given(st.lists(st.integers(0, 30), unique=True, max_size=8), st.tuples(*[st.integers(0, 30)] * 4))
def test_parts_do_not_overlap_and_leave_nothing_out(cuts: list[int], bounds: tuple[int, ...]) -> None:
    edges = sorted(cuts)
    covered = [Span(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    log, wanted = Span(*sorted(bounds[:2])), Span(*sorted(bounds[2:]))

    archived, live, missing = join(covered, log, wanted)

    found = offsets(archived) + offsets(live) + offsets(missing)
    assert len(found) == len(set(found))
    assert set(offsets(archived)) == set(offsets(covered)) & set(offsets([wanted]))
    assert set(offsets(live)) == (set(offsets([log])) & set(offsets([wanted]))) - set(offsets(covered))
    # What lies beyond the log's end has not been written yet: it is not missing.
    assert set(offsets(missing)) == {n for n in offsets([wanted]) if n < log.end} - set(offsets(archived)) - set(
        offsets(live)
    )
