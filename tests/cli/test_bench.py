"""Measurements: the numbers that are told of them."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cli.bench import Result, percentiles
from kompat.cli.bench_requests import CODECS, batch_of, fetched
from kompat.cli.command import CommandError
from kompat.protocol.records import check_batch, iterate, read_header, stamp


@settings(deadline=None)
@given(st.lists(st.floats(0, 1000), min_size=1, max_size=200))
def test_percentiles_are_measured_values_in_order(values: list[float]) -> None:
    found = list(percentiles(values).values())

    assert found == sorted(found)
    assert found[-1] == round(max(values), 3)
    assert set(found) <= {round(value, 3) for value in values}


def test_nothing_measured_is_nothing_told() -> None:
    assert percentiles([]) == {}
    assert Result(what="produce").row()["recordsPerSecond"] == 0


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(1, 300), st.sampled_from(sorted(CODECS)))
def test_batches_are_as_they_are_asked_for(count: int, size: int, codec: str) -> None:
    batch = batch_of(count, size, codec, 1)

    check_batch(batch)
    assert [len(record.value or b"") for record in iterate(batch)] == [size] * count


def answer(records: bytes, code: int = 0) -> Any:
    part = SimpleNamespace(partition_index=3, error_code=code, records=records)
    return SimpleNamespace(responses=[SimpleNamespace(topic="t", partitions=[part])])


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")  # kafka-python's
def test_answers_are_counted_without_what_was_cut_off() -> None:
    batch = bytearray(batch_of(5, 10, "none", 1))
    stamp(batch, 5, 0)
    first = batch_of(5, 10, "none", 1)

    assert fetched(answer(first + bytes(batch))) == ({3: 10}, 10, 2 * len(first))
    assert fetched(answer(first + bytes(batch)[:-1])) == ({3: 5}, 5, len(first))
    assert fetched(answer(b"")) == ({}, 0, 0)
    assert read_header(batch).base_offset == 5
    with pytest.raises(CommandError, match="t/3"):
        fetched(answer(b"", 3))
