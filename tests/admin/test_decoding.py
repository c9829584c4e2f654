"""Whatever a client sends, a route gets what it takes, or the client a problem."""

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kompat.admin import decoding
from kompat.admin.decoding import decode_body, decode_path, decode_query
from kompat.admin.problems import Problem
from kompat.admin.route import JSON, Route
from kompat.admin.routes import all_routes
from kompat.admin.shapes import Query

WITH_BODY = [route for route in all_routes() if route.body not in (None, bytes)]
WITH_QUERY = [route for route in all_routes() if route.query is not None]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def outcome(work: Callable[[], Any]) -> Any:
    """What it gives, or the problem that it raises."""
    try:
        return work()
    except Problem as problem:
        return problem


def names_of(shape: Any) -> list[str]:
    found = msgspec.inspect.type_info(shape)
    return [field.encode_name for field in found.fields] if isinstance(found, msgspec.inspect.StructType) else ["x"]


def bodies(route: Route) -> st.SearchStrategy[bytes]:
    """Bytes, and objects with the right names and anything in them."""
    objects = st.dictionaries(st.sampled_from(names_of(route.body)), json_values, max_size=4)
    return st.binary(max_size=100) | objects.map(msgspec.json.encode)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(WITH_BODY).flatmap(lambda route: st.tuples(st.just(route), bodies(route))))
def test_a_body_fits_or_is_a_problem(sent: tuple[Route, bytes]) -> None:
    route, raw = sent
    found = outcome(lambda: decode_body(route, JSON, raw))

    if isinstance(found, Problem):
        assert found.status == 400
        assert len(found.detail) > 10
    elif found is not None:
        assert msgspec.json.decode(msgspec.json.encode(found), type=route.body) == found


def queries(route: Route) -> st.SearchStrategy[list[tuple[str, str]]]:
    name = st.sampled_from(names_of(route.query)) | st.text(max_size=5)
    return st.lists(st.tuples(name, st.text(max_size=9) | st.integers().map(str)), max_size=3)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(WITH_QUERY).flatmap(lambda route: st.tuples(st.just(route), queries(route))))
def test_a_query_fits_or_is_a_problem(sent: tuple[Route, list[tuple[str, str]]]) -> None:
    route, pairs = sent
    raw = "&".join(f"{quote(key, errors='replace')}={quote(value, errors='replace')}" for key, value in pairs)
    found = outcome(lambda: decode_query(route.query, raw.encode()))

    assert found.status == 400 if isinstance(found, Problem) else isinstance(found, route.query)


class Lists(Query):
    names: list[str] = msgspec.field(default_factory=list)
    limit: int = 5


def test_a_name_may_stand_several_times_only_where_a_list_is_taken() -> None:
    assert decode_query(Lists, b"names=a&names=b&limit=7") == Lists(names=["a", "b"], limit=7)
    with pytest.raises(Problem, match="twice"):
        decode_query(Lists, b"limit=1&limit=2")


def test_a_query_where_none_is_taken_is_refused() -> None:
    assert decode_query(None, b"") is None
    with pytest.raises(Problem, match="no parameter x"):
        decode_query(None, b"x=1")


def test_too_many_parameters_are_refused() -> None:
    with pytest.raises(Problem, match="cannot be read"):
        decode_query(Lists, b"&".join([b"names=a"] * 1000))


@given(st.text(min_size=1))
def test_a_name_in_the_address_may_have_any_characters(name: str) -> None:
    escaped = quote(name.encode("utf-8", "surrogatepass"), safe="")
    try:
        assert decode_path({"group": escaped}) == {"group": name}
    except Problem:
        assert not name.isprintable()  # a surrogate is no character


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("2147483647", 2**31 - 1), ("2147483648", None), ("-1", None), ("1.5", None), ("٣", None)],
)
def test_numbers_in_the_address_are_numbers(text: str, number: int | None) -> None:
    if number is not None:
        assert decode_path({"partition": text}) == {"partition": number}
        return
    with pytest.raises(Problem, match="partition"):
        decode_path({"partition": quote(text)})


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
def test_a_body_of_another_type_is_refused(media_type: str) -> None:
    with pytest.raises(Problem) as raised:
        decode_body(WITH_BODY[0], media_type, b"{}")
    assert raised.value.status == 415


@given(st.recursive(st.integers() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)))
async def test_values_are_counted_outside_of_strings(value: object) -> None:
    def count(each: object) -> int:
        if isinstance(each, dict):
            return 1 + max(0, len(each) - 1) + sum(map(count, each.values()))
        if isinstance(each, list):
            return 1 + max(0, len(each) - 1) + sum(map(count, each))
        return 0

    raw = json.dumps(value, ensure_ascii=False).encode()
    with patch.object(decoding, "SHORT_BODY", 0), patch.object(decoding, "MOST_VALUES", count(value)):
        await decoding.check_values(raw)
    if count(value):
        with (
            patch.object(decoding, "SHORT_BODY", 0),
            patch.object(decoding, "MOST_VALUES", count(value) - 1),
            pytest.raises(Problem),
        ):
            await decoding.check_values(raw)


async def test_a_long_body_of_few_values_is_read_and_one_of_many_is_not() -> None:
    await decoding.check_values(b'{"value": "' + b'\\"[{,\\\\' * 500_000 + b'"}')
    with pytest.raises(Problem, match="65536 values"):
        await decoding.check_values(b'{"messages": [' + b'{"value":""},' * 100_000 + b"{}]}")
