"""Topics of many partitions, some of them at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.admin.problems import Problem
from kompat.admin.turns import AT_A_TIME, turn_of


@given(count=st.integers(1, 1000), pages=st.integers(1, 3))
def test_every_partition_has_its_turn_once(count: int, pages: int) -> None:
    seen: list[int] = []
    cursor: str | None = None
    while True:
        turn = turn_of(count, None, cursor)
        seen += turn.partitions
        for page in range(1, pages):  # there is more to read in these partitions
            cursor = turn.cursor_after(f"page-{page}")
            turn = turn_of(count, None, cursor)
            assert turn.cursor == f"page-{page}"
        cursor = turn.cursor_after(None)
        if cursor is None:
            break
    assert seen == list(range(count))


def test_one_partition_is_read_alone() -> None:
    turn = turn_of(1000, 700, "page-1")

    assert (list(turn.partitions), turn.cursor) == ([700], "page-1")
    assert turn.cursor_after("page-2") == "page-2"
    assert turn.cursor_after(None) is None


@pytest.mark.parametrize("cursor", ["1000.", "-1.x", "x.y", "\u0664.x", f"{2**70}."])
def test_a_cursor_of_nothing_is_refused(cursor: str) -> None:
    with pytest.raises(Problem) as raised:
        turn_of(1000, None, cursor)
    assert raised.value.status == 400


def test_a_topic_that_has_grown_meanwhile_is_read_to_its_end() -> None:
    turn = turn_of(AT_A_TIME + 1, None, "of-before")
    assert turn.cursor == "of-before"
    assert turn.cursor_after(None) == f"{AT_A_TIME}."
