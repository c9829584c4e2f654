"""The order in which frames leave, and how many wait."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.raft.links.frames import Parcel
from kompat.raft.links.outbox import PATIENCE, Lane, Outbox


def named(lane: Lane, number: int, size: int) -> Parcel:
    return [(lane, number), b""], size  # type: ignore[list-item]


def taken(outbox: Outbox, most: int) -> list[tuple[Lane, int]]:
    return outbox.take(most)[::2]  # type: ignore[return-value]


def test_what_is_urgent_goes_first_and_streams_last() -> None:
    outbox = Outbox(1 << 30)
    for lane in (Lane.BULK, Lane.CALLS, Lane.RAFT, Lane.URGENT):
        outbox.add(lane, named(lane, 0, 10))

    assert [lane for lane, _ in taken(outbox, 1000)] == [Lane.URGENT, Lane.RAFT, Lane.CALLS, Lane.BULK]
    assert outbox.size == 0


def test_those_who_are_patient_are_not_starved() -> None:
    outbox = Outbox(1 << 40)
    for number in range(100):
        outbox.add(Lane.RAFT, named(Lane.RAFT, number, PATIENCE // 4))
        outbox.add(Lane.BULK, named(Lane.BULK, number, 10))
        outbox.add(Lane.CALLS, named(Lane.CALLS, number, 10))

    order = [lane for lane, _ in taken(outbox, 100 * PATIENCE // 4)]

    assert order[:10] == [*[Lane.RAFT] * 4, Lane.BULK, *[Lane.RAFT] * 4, Lane.CALLS]
    assert order.count(Lane.BULK) >= 12
    assert order.count(Lane.CALLS) >= 12


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(list(Lane)), st.integers(1, 3000)), st.tuples(st.just(None), st.integers(1, 5000))
    ),
    max_size=80,
)


@settings(max_examples=200)
@given(steps=steps)
def test_the_outbox_keeps_its_bounds_and_each_lane_its_order(steps: list[tuple[Lane | None, int]]) -> None:
    limit = 8000
    outbox = Outbox(limit)
    offered: dict[Lane, list[int]] = {lane: [] for lane in Lane}
    got: dict[Lane, list[int]] = {lane: [] for lane in Lane}
    for number, (lane, size) in enumerate(steps):
        if lane is None:
            for each, which in taken(outbox, size):
                got[each].append(which)
        elif outbox.offer(lane, named(lane, number, size)):
            offered[lane].append(number)
        assert outbox.size <= limit + len(Lane) * 3000  # a lane that is empty takes one of any size
    while outbox.size:
        for each, which in taken(outbox, 1):
            got[each].append(which)

    assert got == offered
