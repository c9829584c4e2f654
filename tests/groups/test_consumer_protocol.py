"""The embedded consumer protocol is read in every version and written as Java consumers read it."""

import pytest

from kompat.groups.consumer_protocol import (
    encode_assignment,
    parse_assignment,
    parse_subscribed_topics,
    parse_subscription,
)
from kompat.protocol.primitives import MalformedBytesError

TOPICS = "00000002" + "000161" + "000162"  # ["a", "b"]
NO_USER_DATA = "ffffffff"
OWNED = "00000001" + "000161" + "00000002" + "00000000" + "00000003"  # {"a": [0, 3]}


@pytest.mark.parametrize(
    ("data", "owned", "generation", "rack"),
    [
        ("0000" + TOPICS + NO_USER_DATA, {}, -1, None),
        ("0001" + TOPICS + NO_USER_DATA + OWNED, {"a": (0, 3)}, -1, None),
        ("0002" + TOPICS + NO_USER_DATA + OWNED + "00000007", {"a": (0, 3)}, 7, None),
        ("0003" + TOPICS + NO_USER_DATA + OWNED + "00000007" + "000172", {"a": (0, 3)}, 7, "r"),
        ("0009" + TOPICS + NO_USER_DATA + OWNED + "00000007" + "ffff" + "00ff", {"a": (0, 3)}, 7, None),
    ],
)
def test_a_subscription_is_read_in_every_version(
    data: str, owned: dict[str, tuple[int, ...]], generation: int, rack: str | None
) -> None:
    subscription = parse_subscription(bytes.fromhex(data))

    assert subscription.topics == ("a", "b")
    assert subscription.owned_partitions == owned
    assert (subscription.generation_id, subscription.rack_id) == (generation, rack)


def test_an_assignment_survives_the_round_trip() -> None:
    data = encode_assignment({"a": (1, 0), "b": ()}, version=1)

    assert (
        data.hex()
        == "0001" + "00000002" + "000161" + "0000000200000000" + "00000001" + "000162" + "00000000" + NO_USER_DATA
    )
    assert parse_assignment(data).partitions == {"a": (0, 1), "b": ()}


def test_topics_are_read_even_when_the_rest_is_unknown() -> None:
    assert parse_subscribed_topics(bytes.fromhex("0063" + TOPICS + "deadbeef")) == ("a", "b")


@pytest.mark.parametrize("data", ["", "00", "ffff" + TOPICS, "0000" + "7fffffff", "0000" + TOPICS[:-2]])
def test_bytes_that_are_no_subscription_are_malformed(data: str) -> None:
    with pytest.raises(MalformedBytesError):
        parse_subscription(bytes.fromhex(data))
