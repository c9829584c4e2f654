"""Whose word counts for where a request comes from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.admin.problems import Problem
from kompat.admin.proxies import client_address
from kompat.config.broker import BrokerConfig
from kompat.errors import ConfigError

PROXIES = ("10.0.0.0/8", "fd00::/8", "192.0.2.1")


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "forwarded", "address"),
    [
        ("203.0.113.5", ["198.51.100.7"], [], "203.0.113.5"),
        ("203.0.113.5", [], ["for=198.51.100.7"], "203.0.113.5"),
        ("::ffff:203.0.113.5", [], [], "203.0.113.5"),
        ("10.0.0.1", [], [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], [], "198.51.100.7"),
        ("::ffff:10.0.0.1", ["198.51.100.7:5000"], [], "198.51.100.7"),
        ("10.0.0.1", ["127.0.0.1, 198.51.100.7"], [], "198.51.100.7"),
        ("10.0.0.1", ["127.0.0.1", "198.51.100.7"], [], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7, 192.0.2.1, fd00::1"], [], "198.51.100.7"),
        ("10.0.0.1", ["10.0.0.2"], [], "10.0.0.2"),
        ("10.0.0.1", ["198.51.100.7, unknown"], [], "10.0.0.1"),
        ("10.0.0.1", [""], [], "10.0.0.1"),
        ("10.0.0.1", [], ['for=127.0.0.1, For="[2001:db8::7]:80";proto=https'], "2001:db8::7"),
        ("10.0.0.1", [], ["proto=https;for=198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", [], ["for=_hidden"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], ["for=198.51.100.7"], "198.51.100.7"),
    ],
)
def test_only_named_proxies_are_believed(
    peer: str, forwarded_for: list[str], forwarded: list[str], address: str
) -> None:
    assert client_address(peer, forwarded_for, forwarded, PROXIES) == address
    assert client_address(peer, forwarded_for, forwarded, ()) == peer.removeprefix("::ffff:")


def test_a_client_cannot_pass_a_header_by_a_proxy_that_writes_the_other() -> None:
    with pytest.raises(Problem):
        client_address("10.0.0.1", ["198.51.100.7"], ["for=127.0.0.1"], PROXIES)


@given(st.lists(st.text(max_size=30), max_size=4), st.lists(st.text(max_size=30), max_size=4))
def test_what_a_client_writes_before_its_proxy_never_counts(first: list[str], second: list[str]) -> None:
    written = [text.replace(",", " ") for text in first]
    assert client_address("10.0.0.1", [*written, "198.51.100.7"], [], PROXIES) == "198.51.100.7"
    assert client_address("203.0.113.5", first, second, PROXIES) == "203.0.113.5"


def test_what_is_no_network_is_no_proxy() -> None:
    with pytest.raises(ConfigError, match="proxies"):
        BrokerConfig({"kompat.http.trusted.proxies": "loadbalancer"})
