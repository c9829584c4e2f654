"""No request holds the event loop: every API with a long list in its request, by the processor's time of the longest turn beside it.

Times are those of the thread, and the best of some tries: what a busy machine does to it does not count.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from kompat.handlers.support.base import Api
from kompat.handlers.support.parts import Cut
from kompat.handlers.support.services import Services
from kompat.protocol.codec import encode_request
from kompat.protocol.messages.schema import Field, Struct
from kompat.server.dispatch import Dispatcher, Exchange
from kompat.server.long_requests import MOST_AT_ONCE, MOST_ITEMS
from tests.handlers.turns import APIS, CLIENT, LONGEST_TURN, TRIES, longest_turn, services
from tests.server.support import NO_SERVICES

__all__ = ["services"]

MANY = 10_000
CUT = [pytest.param(api, cut, id=f"{api.name}-{cut.in_request}") for api in APIS for cut in api.handler.parts]


@pytest.mark.parametrize(("api", "cut"), CUT)
async def test_a_long_list_lets_others_have_their_turns(services: Services, api: Api, cut: Cut) -> None:
    version = max(v for v in range(api.versions.low, api.versions.high + 1) if _has(api, cut, v))
    frame = _frame(api, version, cut, MANY)
    turns: list[float] = []
    while len(turns) < TRIES and min(turns, default=LONGEST_TURN) >= LONGEST_TURN:
        turns.append(await longest_turn(services, api, frame))

    assert min(turns) < LONGEST_TURN


@pytest.mark.parametrize("api", [api for api in APIS if api.handler.decode is None], ids=lambda api: api.name)
def test_an_api_with_lists_is_cut_or_takes_fewer_items(api: Api) -> None:
    for cut in api.handler.parts:
        _check(api.handler.request.SCHEMA.struct, api.handler.response.SCHEMA.struct, cut)
    assert MOST_AT_ONCE < MOST_ITEMS


async def test_many_partitions_in_a_short_request_are_made_a_hundred_at_a_time(services: Services) -> None:
    [api] = [api for api in APIS if api.name == "CreateTopics"]
    turns: list[float] = []
    while len(turns) < TRIES and min(turns, default=LONGEST_TURN) >= LONGEST_TURN:
        names = [f"topic-{len(turns)}-{number}" for number in range(40)]
        made = api.handler.request.CreatableTopic
        topics = [made(name=name, num_partitions=50, replication_factor=1) for name in names]
        request = api.handler.request(topics=topics, timeout_ms=30_000)
        turns.append(await longest_turn(services, api, memoryview(encode_request(api.handler.request, 7, request))))

    assert min(turns) < LONGEST_TURN
    assert all(len(services.cluster.image.topics[name].partitions) == 50 for name in names)


async def test_more_items_than_are_let_in_are_refused(services: Services) -> None:
    [api] = [api for api in APIS if api.name == "DescribeGroups"]
    frame = _frame(api, api.versions.high, api.handler.parts[0], MOST_ITEMS + 1)

    answer = Dispatcher([api], services).dispatch(CLIENT, frame)

    assert isinstance(answer, Exchange)
    while not answer.is_done:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert answer.result() is None  # there is no place for an error but in its items: the connection is closed


def test_a_fetch_of_more_bytes_than_are_let_in_is_refused_before_it_is_decoded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    [api] = [api for api in APIS if api.name == "Fetch"]
    assert api.handler.max_bytes is not None
    head = struct.pack(">hhih", api.key, 4, 7, -1)

    answer = Dispatcher([api], NO_SERVICES).dispatch(
        CLIENT, memoryview(bytearray(head + bytes(api.handler.max_bytes + 1)))
    )

    assert answer is None or not isinstance(answer, Exchange)
    assert "no error answer" not in caplog.text


# -- requests ----------------------------------------------------------------------------------------------------------
def _has(api: Api, cut: Cut, version: int) -> bool:
    [field] = [field for field in api.handler.request.SCHEMA.struct.fields if field.name == cut.in_request]
    return version in field.versions


def _frame(api: Api, version: int, cut: Cut, count: int) -> memoryview:
    """A request with so many items in the list, and one in each list of theirs."""
    request = api.handler.request()
    [field] = [field for field in api.handler.request.SCHEMA.struct.fields if field.name == cut.in_request]
    setattr(request, cut.in_request, [_item(api.handler.request, field, number) for number in range(count)])
    return memoryview(encode_request(api.handler.request, version, request))


def _item(owner: Any, field: Field, number: int) -> Any:
    if field.struct is None:
        return f"name-{number}" if field.type == "string" else number
    made = getattr(owner, field.struct.name)
    item = made()
    for inner in field.struct.fields:
        if inner.is_array:
            setattr(item, inner.name, [_item(made, inner, 0)])
        elif inner.type == "string" and (number or inner.default is not None):
            setattr(item, inner.name, f"name-{number}")
    return item


def _check(request: Struct, response: Struct, cut: Cut) -> None:
    """Both have the lists that it names."""
    [asked] = [field for field in request.fields if field.name == cut.in_request]
    [answered] = [field for field in response.fields if field.name == cut.in_response]
    assert asked.is_array
    assert answered.is_array
    if cut.inner is not None:
        assert asked.struct is not None
        assert answered.struct is not None
        _check(asked.struct, answered.struct, cut.inner)
