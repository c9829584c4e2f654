"""Quotas in the cluster's metadata: altered and described."""

from __future__ import annotations

import pytest

from kompat.cluster.quotas import ANY, DEFAULT, EXACT, Component, matching
from kompat.errors import ErrorCode
from kompat.security.quotas import CLIENT_ID, IP, USER
from tests.cluster.support import Written

ALICE = frozenset({(USER, "alice")})


def test_quotas_of_an_entity_are_changed_one_by_one_and_it_goes_with_the_last() -> None:
    written = Written()
    written.alter([(USER, "alice")], producer_byte_rate=5, consumer_byte_rate=6)
    written.alter([(USER, "alice")], producer_byte_rate=None, request_percentage=1.5)
    assert written.image.quotas == {ALICE: {"consumer_byte_rate": 6, "request_percentage": 1.5}}

    written.alter([(USER, "alice")], consumer_byte_rate=None, request_percentage=None)

    assert written.image.quotas == {}


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ([], {"producer_byte_rate": 1}),
        ([(USER, "")], {"producer_byte_rate": 1}),
        ([("group", "g")], {"producer_byte_rate": 1}),
        ([(USER, "a"), (USER, "b")], {"producer_byte_rate": 1}),
        ([(IP, "10.0.0.1"), (USER, "a")], {"connection_creation_rate": 1}),
        ([(IP, "not an address")], {"connection_creation_rate": 1}),
        ([(IP, None)], {"producer_byte_rate": 1}),
        ([(USER, "a")], {"connection_creation_rate": 1}),
        ([(USER, "a")], {"producer_byte_rate": 0}),
        ([(USER, "a")], {"producer_byte_rate": 0.5}),
        ([(USER, "a")], {"producer_byte_rate": 1e19}),
        ([(USER, "a")], {"request_percentage": float("nan")}),
    ],
)
def test_what_makes_no_sense_is_refused(entity: list[tuple[str, str | None]], quotas: dict[str, float]) -> None:
    written = Written()
    refused = written.alter(entity, **quotas)

    assert refused is not None
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert written.image.quotas == {}


def test_filters_find_one_the_default_or_any_and_strict_ones_nothing_more() -> None:
    both = frozenset({(USER, "alice"), (CLIENT_ID, None)})
    quotas = {ALICE: {"a": 1.0}, both: {"b": 2.0}, frozenset({(USER, None)}): {"c": 3.0}}

    def found(*components: Component, is_strict: bool = False) -> set[str]:
        matches = matching(components, is_strict=is_strict)
        return {key for entity, values in quotas.items() if matches(entity) for key in values}

    assert found() == {"a", "b", "c"}
    assert found(is_strict=True) == set()
    assert found(Component(USER, EXACT, "alice")) == {"a", "b"}
    assert found(Component(USER, EXACT, "alice"), is_strict=True) == {"a"}
    assert found(Component(USER, DEFAULT)) == {"c"}
    assert found(Component(USER, ANY), is_strict=True) == {"a", "c"}
    assert found(Component(USER, ANY), Component(CLIENT_ID, ANY)) == {"b"}
