"""What may begin beside what: random requests of one connection, whose effects come about in any order that may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kompat.protocol.api_keys import ApiKey
from kompat.server.ordering import MAY_FOLLOW, Order

PRODUCE, METADATA = ApiKey.Produce, ApiKey.Metadata


def test_only_produces_follow_each_other() -> None:
    assert {PRODUCE: {PRODUCE}} == MAY_FOLLOW


def test_anything_begins_where_nothing_is_under_way() -> None:
    order = Order()

    assert order.lets_begin(PRODUCE)
    assert order.lets_begin(METADATA)


requests = st.lists(st.tuples(st.sampled_from((PRODUCE, METADATA)), st.booleans()), max_size=30)


@given(requests=requests, data=st.data())
def test_whatever_begins_finds_nothing_under_way_but_what_it_may_follow(
    requests: list[tuple[int, bool]], data: st.DataObject
) -> None:
    order, under_way = Order(), []
    for key, has_taken_place in requests:
        while not order.lets_begin(key):
            under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            order.answered()
        assert all(other == key == PRODUCE and taken for other, taken in under_way)
        order.begun(key, has_taken_place=has_taken_place)
        under_way.append((key, has_taken_place))
        assert order.count == len(under_way)
