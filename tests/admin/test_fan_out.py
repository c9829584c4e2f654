"""Many partitions are asked for in pieces."""

from hypothesis import given
from hypothesis import strategies as st

from kompat.admin.fan_out import pieces


@given(st.dictionaries(st.text(max_size=3), st.sets(st.integers(0, 50), min_size=1).map(sorted)), st.integers(1, 20))
def test_pieces_have_each_partition_once_and_are_no_larger_than_asked(led: dict[str, list[int]], most: int) -> None:
    found = list(pieces(led, most))

    assert sorted((t, p) for piece in found for t, part in piece.items() for p in part) == sorted(
        (t, p) for t, part in led.items() for p in part
    )
    assert all(1 <= sum(map(len, piece.values())) <= most for piece in found)
