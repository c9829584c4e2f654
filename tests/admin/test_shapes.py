"""Pages, bytes and times as JSON has them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.admin.problems import Problem
from kompat.admin.shapes import LATEST_TIME, cursor_text, millis, page, raw_bytes, rfc3339, shown, to_cursor


@given(st.sets(st.text()), st.integers(1, 10))
async def test_pages_have_each_item_once_in_order(names: set[str], limit: int) -> None:
    found: list[str] = []
    cursor = None
    while True:
        got = await page(names, str, limit, cursor)
        assert len(got.items) <= limit
        found += got.items
        if got.next_cursor is None:
            break
        cursor = got.next_cursor
    assert found == sorted(names)


@given(st.text())
def test_a_cursor_is_given_back_as_it_was(text: str) -> None:
    try:
        cursor = to_cursor(text)
    except UnicodeEncodeError:
        return
    assert cursor_text(cursor) == text


@given(st.text())
def test_any_other_cursor_is_a_problem_or_a_place(text: str) -> None:
    try:
        found = cursor_text(text)
    except Problem:
        return
    assert isinstance(found, str)


@given(st.binary())
def test_bytes_come_back_as_they_were(raw: bytes) -> None:
    text, encoding = shown(raw)
    assert raw_bytes(text, encoding, "value") == raw


def test_nothing_stays_nothing_and_is_not_empty() -> None:
    assert shown(None)[0] is None
    assert raw_bytes(None, None, "value") is None
    assert shown(b"")[0] == ""
    with pytest.raises(Problem, match=r"value.*base64"):
        raw_bytes("?", "base64", "value")


@given(st.integers(0, LATEST_TIME))
def test_times_come_back_as_they_were(at: int) -> None:
    assert millis(rfc3339(at), "at") == millis(at, "at") == millis(str(at), "at") == at


@pytest.mark.parametrize(
    "text", ["", "soon", "2030-01-31", "2030-01-31T12:00:00", "1900-01-01T00:00:00Z", "99999999999999999"]
)
def test_what_is_no_time_is_a_problem(text: str) -> None:
    with pytest.raises(Problem, match="deliverAt"):
        millis(text, "deliverAt")
