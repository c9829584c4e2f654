import logging

import pytest

from kompat.sparse_log import SparseLog

log = logging.getLogger(__name__)


def test_an_interval_has_so_many_lines_and_the_next_one_tells_how_many_were_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    sparse = SparseLog(log, lines=2, seconds=10, time=lambda: now[0])

    for number in range(5):
        sparse.write("denied", lambda number=number: {"number": number})  # type: ignore[misc]
    now[0] = 10.0
    sparse.write("denied", lambda: {"number": 5})

    written = [vars(record) for record in caplog.records]
    assert [each["number"] for each in written] == [0, 1, 5]
    assert [each.get("left_out", 0) for each in written] == [0, 0, 3]


def test_a_line_that_is_left_out_costs_no_facts() -> None:
    sparse = SparseLog(log, lines=0, time=lambda: 0.0)

    sparse.write("denied", lambda: pytest.fail("nobody reads them"))
