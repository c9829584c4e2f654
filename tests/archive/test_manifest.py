"""What commits make of an archive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.archive.manifest import (
    Archive,
    ArchiveError,
    Commit,
    DataFile,
    Span,
    commit_name,
    commit_number,
    decode,
    joined,
)


def a_file(path: str, topic: str = "orders", **spans: tuple[int, int]) -> DataFile:
    found = {int(partition.removeprefix("p")): Span(*offsets) for partition, offsets in spans.items()}
    return DataFile(path=path, topic=topic, date="2026-01-31", rows=1, bytes=10, spans=found)


def test_a_commit_reads_back_as_it_was_written() -> None:
    commit = Commit(added=[a_file("a", p0=(0, 5), p3=(7, 9))], removed=["b"], covered={("orders", 0): Span(0, 6)})

    assert decode("1", commit.encode()) == commit


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"{}", b'{"version": 1, "added": [{}], "removed": [], "covered": []}']
)
def test_what_is_not_a_commit_is_refused_by_its_name(data: bytes) -> None:
    with pytest.raises(ArchiveError, match=r"7\.json"):
        decode("7.json", data)


def test_a_newer_version_is_not_misread() -> None:
    with pytest.raises(ArchiveError, match="newer"):
        decode("7.json", b'{"version": 2}')


def test_a_missing_commit_is_noticed() -> None:
    with pytest.raises(ArchiveError, match="commit 2 is missing"):
        Archive.of([(1, Commit()), (3, Commit())])


def test_replaced_files_are_gone_and_offsets_stay_covered() -> None:
    small = [a_file("a", p0=(0, 5)), a_file("b", p0=(5, 9))]
    archive = Archive.of(
        [
            (1, Commit(added=small[:1], covered={("orders", 0): Span(0, 5)})),
            (2, Commit(added=small[1:], covered={("orders", 0): Span(5, 9)})),
            (3, Commit(added=[a_file("c", p0=(0, 9))], removed=["a", "b"])),
        ]
    )

    assert list(archive.files) == ["c"]
    assert archive.end_of(("orders", 0)) == 9
    assert archive.holding(("orders", 0), Span(4, 5)) == [a_file("c", p0=(0, 9))]
    assert archive.holding(("orders", 0), Span(9, 10)) == []
    assert archive.holding(("orders", 1), Span(0, 10)) == []


def test_a_file_cannot_be_replaced_twice() -> None:
    with pytest.raises(ArchiveError, match="not there"):
        Archive.of([(1, Commit(removed=["a"]))])


def test_offsets_cannot_be_archived_twice() -> None:
    with pytest.raises(ArchiveError, match="twice"):
        joined([Span(0, 5)], Span(4, 9))


def test_names_of_commits_sort_as_their_numbers_do() -> None:
    assert [commit_number(name) for name in sorted(map(commit_name, (100, 20, 3)))] == [3, 20, 100]
    assert commit_number("00000000000000000007.json.tmp") is None
    assert commit_number("_SUCCESS") is None


@given(st.sets(st.integers(0, 60)), st.randoms(use_true_random=False))
def test_joined_spans_cover_what_was_added_and_nothing_else(cuts: set[int], random: object) -> None:
    edges = sorted(cuts)
    parts = [Span(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    spans: list[Span] = []
    for part in shuffled:
        spans = joined(spans, part)

    assert {n for s in spans for n in range(s.start, s.end)} == {n for s in parts for n in range(s.start, s.end)}
    assert all(a.end < b.start for a, b in pairwise(spans))
