"""Receipts as texts."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.errors import KafkaError
from kompat.share.receipts import Receipt, decode
from kompat.types import LogId

RECEIPTS = st.builds(
    Receipt,
    st.text(max_size=200),
    st.builds(LogId, st.uuids(), st.integers(0, 2**31 - 1)),
    st.integers(0, 2**63 - 1),
    st.integers(1, 0x7FFF),
    st.integers(0, 2**31 - 1),
    st.binary(min_size=8, max_size=8),
)


@given(RECEIPTS)
def test_a_receipt_says_the_same_to_the_broker_again(receipt: Receipt) -> None:
    text = receipt.encode()
    assert decode(text) == receipt
    assert text.isascii()
    assert not set(text) & set("=+/, \n")


@given(RECEIPTS, st.data())
def test_a_garbled_receipt_is_recognised(receipt: Receipt, data: st.DataObject) -> None:
    text = receipt.encode()
    place = data.draw(st.integers(0, len(text) - 2))
    other = data.draw(st.sampled_from("AZaz09-_").filter(lambda c: c != text[place]))
    with pytest.raises(KafkaError, match="is not a receipt"):
        decode(text[:place] + other + text[place + 1 :])


@given(st.text(max_size=60))
def test_any_other_text_is_none(text: str) -> None:
    with pytest.raises(KafkaError, match="is not a receipt"):
        decode(text)


def test_a_text_of_any_length_is_refused_quickly() -> None:
    with pytest.raises(KafkaError, match="is not a receipt"):
        decode("A" * 10_000_000)


def test_a_name_that_is_not_utf8_is_none() -> None:
    receipt = Receipt("g", LogId(UUID(int=1), 0), 1, 1, 0, b"12345678")
    assert decode(receipt.encode()).member == "receipt-3132333435363738"
