"""How a cluster is named: which brokers, where, and what is refused."""

from __future__ import annotations

import pytest

from kompat.cluster.build import parse_address, parse_members
from kompat.cluster.state import Address
from kompat.errors import ConfigError


def test_brokers_are_named_by_number_and_address() -> None:
    found = parse_members(("1@kafka1:9192", "20@[::1]:9192", "3@10.0.0.3:0"))

    assert found == {1: Address("kafka1", 9192), 20: Address("::1", 9192), 3: Address("10.0.0.3", 0)}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        (("one@127.0.0.1:1",), "'one@127.0.0.1:1' is not of the form NODE@host:port"),
        (("127.0.0.1:1",), "'127.0.0.1:1' is not of the form NODE@host:port"),
        (("1@nowhere",), "'nowhere' is not of the form host:port"),
        (("1@a:65536",), "'a:65536' is not of the form host:port"),
        (("1@a:1", "1@b:1"), "broker 1 is named twice"),
    ],
)
def test_what_names_no_brokers_is_refused(members: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_members(members)
    assert str(refused.value) == f"kompat.cluster.members: {reason}"


def test_a_listener_without_a_port_is_refused() -> None:
    with pytest.raises(ConfigError):
        parse_address("kompat.cluster.listener", "here")
