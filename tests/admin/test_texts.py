"""What is long is shown and read as what is short: in slices, and with the same outcome."""

import base64
from collections.abc import Iterator
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.admin import texts
from kompat.admin.problems import Problem
from kompat.admin.shapes import raw_bytes, shown
from kompat.admin.texts import in_base64, raw_bytes_in_slices, shown_in_slices

raws = st.binary(max_size=60) | st.text(max_size=40).map(str.encode)
some_text = (
    st.text(max_size=40) | raws.map(lambda raw: base64.b64encode(raw).decode()) | st.text("Aa=+/\n", max_size=30)
)


@pytest.fixture(autouse=True, scope="module")
def _short_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, size in {"LONG": 5, "STEP_BYTES": 6, "STEP_CHARACTERS": 8}.items():
            patch.setattr(texts, name, size)
        yield


@given(raws)
async def test_bytes_are_shown_as_they_are_at_once(raw: bytes) -> None:
    assert await shown_in_slices(raw) == shown(raw) == await shown_in_slices(memoryview(raw))
    assert await in_base64(raw) == base64.b64encode(raw).decode()


@given(some_text, st.sampled_from(["utf-8", "base64"]))
async def test_texts_are_read_as_they_are_at_once(text: str, encoding: Literal["utf-8", "base64"]) -> None:
    try:
        expected = raw_bytes(text, encoding, "value")
    except Problem:
        with pytest.raises(Problem, match="value is not base64"):
            await raw_bytes_in_slices(text, encoding, "value")
    else:
        assert await raw_bytes_in_slices(text, encoding, "value") == expected


async def test_nothing_stays_nothing() -> None:
    assert await raw_bytes_in_slices(None, "base64", "value") is None
    assert (await shown_in_slices(None))[0] is None
