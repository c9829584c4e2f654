import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.cluster.names import collision, folded, invalid_name, is_internal

LEGAL = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))


@given(LEGAL)
def test_ascii_letters_digits_dots_underscores_and_hyphens_make_a_name(name: str) -> None:
    assert invalid_name(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "a\0", "a" * 250, "%61"])
def test_anything_else_does_not(name: str) -> None:
    assert (invalid_name(name) or "").startswith("Topic name is invalid: ")


def test_names_that_begin_as_the_brokers_own_are_for_the_broker() -> None:
    assert "are the broker's own" in (invalid_name("__kompat_mine") or "")
    assert invalid_name("__kompat_trace") is None
    assert invalid_name("kompat_mine") is None


def test_names_collide_that_only_dots_and_underscores_tell_apart() -> None:
    assert folded("a.b") == folded("a_b") != folded("a.c")
    assert folded("a-b") is None
    assert collision("a_b", ["a.b"]) == "Topic 'a_b' collides with existing topic: a.b"


def test_internal_topics_are_kafkas_and_all_whose_names_the_broker_keeps_for_itself() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__cluster_metadata")
    assert is_internal("__kompat_anything")
    assert not is_internal("__consumer_offsets2")
