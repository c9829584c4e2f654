"""Tables, and what becomes of values in them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cli.output import Column, cut, duration_text, fit, printable, size_text, table, text_of, time_text, width_of

COLUMNS = (Column("NAME", "name"), Column("COUNT", "count"), Column("SIZE", "size", size_text))
ROWS: list[dict[str, Any]] = [
    {"name": "orders", "count": 3, "size": 2048},
    {"name": "a-name-that-is-rather-long", "count": 12345, "size": None},
]


def test_on_a_terminal_numbers_are_aligned_to_the_right() -> None:
    assert table(COLUMNS, ROWS, 80) == [
        "NAME                        COUNT     SIZE",
        "orders                          3  2.0 KiB",
        "a-name-that-is-rather-long  12345        -",
    ]


def test_a_narrow_terminal_takes_from_the_widest_column() -> None:
    lines = table(COLUMNS, ROWS, 30)

    assert max(map(width_of, lines)) <= 30
    assert lines[2].startswith("a-name-that-i…  ")
    assert "12345" in lines[2]


def test_in_a_pipe_cells_are_whole_and_separated_by_tabs() -> None:
    assert table(COLUMNS, ROWS, None)[2] == "a-name-that-is-rather-long\t12345\t-"


def test_a_whole_column_is_not_cut_and_leaves_room_for_the_others() -> None:
    cause = "The record was rejected by a consumer: there is neither the box nor the ribbon"
    columns = (*COLUMNS, Column("CAUSE", "cause", is_whole=True))

    line = table(columns, [{**ROWS[1], "cause": cause}], 60)[1]

    assert line.endswith(cause)
    assert "12345" in line
    assert line.startswith("a-name-that")


@settings(deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=8), st.integers(0, 300))
def test_columns_fit_unless_all_are_as_narrow_as_can_be(widths: list[int], room: int) -> None:
    fitted = fit(widths, room)

    assert all(now <= before for now, before in zip(fitted, widths, strict=True))
    assert sum(fitted) <= room or all(now <= 6 for now in fitted)
    if sum(widths) <= room:
        assert fitted == widths


@settings(deadline=None)
@given(st.text(), st.integers(1, 40))
def test_nothing_is_wider_than_it_may_be(text: str, width: int) -> None:
    assert width_of(cut(text, width)) <= width


@settings(deadline=None)
@given(st.text())
def test_no_text_breaks_a_line_or_takes_over_the_terminal(text: str) -> None:
    shown = printable(text)

    assert all(char.isprintable() for char in shown)
    if text.isprintable():
        assert shown == text


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({"name": st.text(), "count": st.integers(), "size": st.none()}), max_size=5))
def test_a_table_in_a_pipe_has_a_line_for_each_row(rows: list[dict[str, Any]]) -> None:
    lines = table(COLUMNS, rows, None)

    assert len(lines) == len(rows) + 1
    assert all(line.count("\t") == 2 for line in lines)


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (True, "yes"), (False, "no"), ([1, 2], "1,2"), ([], "-"), (0, "0"), ("", "")]
)
def test_values(value: object, shown: str) -> None:
    assert text_of(value) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 30, "5.0 GiB"), (1 << 70, "1048576.0 PiB")],
)
def test_sizes(count: int, shown: str) -> None:
    assert size_text(count) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"), [(0, "0 ms"), (999, "999 ms"), (1500, "1.50 s"), (90_000, "1.5 m"), (172_800_000, "2 d")]
)
def test_spans(milliseconds: int, shown: str) -> None:
    assert duration_text(milliseconds) == shown


def test_times_are_utc_and_what_is_none_is_told_as_such() -> None:
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert time_text(-1) == time_text(None) == "-"
    assert time_text(1 << 62) == str(1 << 62)
