"""JSON in slices is the JSON that msgspec makes of the same."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from kompat.admin import encoding
from kompat.admin.encoding import PART_BYTES, Parts, encoded
from kompat.admin.shapes import Answer, Page


class Leaf(Answer):
    name_of: str
    count: int | None = None
    left_out: str | UnsetType = UNSET


class Sparse(msgspec.Struct, omit_defaults=True, kw_only=True):
    text: str | None = None
    items: list[Leaf] = []
    long: str = "default"


texts = st.text(max_size=20) | st.sampled_from(["x" * 90, '\x01"ä' * 30, "😀" * 30])
leaves = st.builds(
    Leaf, name_of=texts, count=st.none() | st.integers(-(2**60), 2**60), left_out=st.just(UNSET) | st.text()
)
sparse = st.builds(Sparse, text=st.none() | texts, items=st.lists(leaves, max_size=3), long=st.just("default") | texts)
scalars = texts | st.integers(-(2**60), 2**60) | st.none() | st.booleans() | st.floats(allow_nan=False)


def many(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Few, or one that comes so often that it is cut."""
    return st.lists(inner, max_size=3) | st.builds(lambda item: [item] * 7, leaves)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keyed = st.dictionaries(st.text(max_size=5) | st.integers(-(2**60), 2**60), inner, max_size=3)
    return many(inner) | keyed | st.builds(lambda items: Page(items=items), many(inner))


values = st.recursive(leaves | sparse | scalars, nested, max_leaves=8)


async def all_of(value: Any) -> bytes:
    return b"".join([part async for part in encoded(value)])


@given(values)
def test_it_is_what_msgspec_makes_of_it_at_once(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {"STEP_CHARACTERS": 8, "SHORT_STRING": 6, "SHORT_LIST": 2, "STEP_ITEMS": 2}.items():
            patch.setattr(encoding, name, size)
        assert asyncio.run(all_of(value)) == msgspec.json.encode(value)


@pytest.mark.parametrize("value", ["x" * 100_000, '\x01"ä' * 50_000, [Leaf(name_of="😀" * 40_000)] * 70])
def test_long_texts_are_cut(value: Any) -> None:
    assert asyncio.run(all_of(value)) == msgspec.json.encode(value)


async def test_a_long_answer_is_sent_in_parts_that_are_not_put_together() -> None:
    page = Page(items=[Leaf(name_of="\x01" * 100_000) for _ in range(10)])
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    answer = Parts([part async for part in encoded(page)], 200, {}, "application/json")
    await answer({"type": "http", "method": "GET"}, None, send)  # type: ignore[arg-type]

    bodies = [message for message in sent if message["type"] == "http.response.body"]
    assert b"".join(message["body"] for message in bodies) == msgspec.json.encode(page)
    assert max(len(message["body"]) for message in bodies) < 2 * PART_BYTES
    assert [message["more_body"] for message in bodies] == [True] * (len(bodies) - 1) + [False]
    assert dict(sent[0]["headers"])[b"content-length"] == str(answer.size).encode()


async def test_long_dictionaries_are_cut_between_their_items() -> None:
    numbers = {number: number * 2 for number in range(100)}
    leaves = {f"key {number}": Leaf(name_of="x" * number * 100) for number in range(100)}

    for value in (numbers, leaves, {}, {"": {}}):
        assert await all_of(value) == msgspec.json.encode(value)
