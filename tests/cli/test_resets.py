"""What resets of groups are about to do."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cli.resets import Target, moves

PLACE = ("orders", 0)


@settings(deadline=None)
@given(
    st.one_of(
        st.builds(Target, offset=st.integers(-10, 200)),
        st.builds(Target, shift=st.integers(-200, 200)),
        st.just(Target(to_earliest=True)),
        st.just(Target(to_latest=True)),
    ),
    st.none() | st.integers(0, 100),
    st.integers(0, 50),
    st.integers(0, 50),
)
def test_a_group_never_leaves_the_log(target: Target, was: int | None, start: int, size: int) -> None:
    committed = {} if was is None else {PLACE: was}

    found = moves(target, committed, {PLACE: (start, start + size)})

    if target.shift is not None and was is None:
        assert found == []
        return
    [move] = found
    assert start <= move.to <= start + size
    assert move.was == was
    wanted = target.offset if target.offset is not None else None
    if target.shift is not None and was is not None:
        wanted = was + target.shift
    assert move.is_clamped == (wanted is not None and move.to != wanted)
