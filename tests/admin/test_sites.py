"""By which names the broker is known to browsers."""

import pytest

from kompat.admin.problems import Problem
from kompat.admin.sites import Sites
from kompat.config.broker import BrokerConfig

CONFIG = {
    "listeners": "PLAINTEXT://kafka.example:9092",
    "advertised.listeners": "PLAINTEXT://outside.example:9092",
    "kompat.http.host": "door.example",
    "kompat.http.allowed.hosts": "console.example,*.inside.example",
}


def checked(host: str, settings: dict[str, str] | None = None, **headers: str) -> int:
    sites = Sites(BrokerConfig(CONFIG if settings is None else settings), "machine")
    try:
        sites.check("GET", "/v1/topics", [host], {name.replace("_", "-"): text for name, text in headers.items()})
    except Problem as problem:
        return problem.status
    return 200


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.0.0.1:8080", "10.1.2.3:80", "[::1]:8080", "[fe80::1%eth0]", "localhost", "LOCALHOST:8080", "localhost.",
        "machine:8080", "door.example", "kafka.example:8080", "outside.example", "console.example", "a.inside.example", "b.a.inside.example:1",
    ],
)  # fmt: skip
def test_addresses_and_the_names_of_its_listeners_are_its_own(host: str) -> None:
    assert checked(host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "", "inside.example", "evilinside.example", "127.0.0.1.evil.example", "localhost.evil.example", "0x7f.1",
        "[", "[::1", "[::1].evil.example", "[::1]evil.example:80", "127.0.0.1%evil.example", "localhost:80@evil.example", "[localhost]",
    ],
)  # fmt: skip
def test_all_other_names_are_refused(host: str) -> None:
    assert checked(host) == 421


def test_a_star_takes_any_name() -> None:
    assert checked("evil.example", {"kompat.http.allowed.hosts": "*"}) == 200


def test_names_follow_the_settings() -> None:
    config = BrokerConfig({})
    sites = Sites(config, "machine")
    assert not sites.is_known("new.example")
    config.change(cluster={"kompat.http.allowed.hosts": "new.example"}, broker={})
    assert sites.is_known("new.example")


def test_an_origin_that_a_proxy_has_changed_the_host_of_is_own_if_it_is_allowed_by_name() -> None:
    assert checked("127.0.0.1:8080", origin="http://console.example") == 200
    assert checked("127.0.0.1:8080", origin="http://localhost:3000") == 403
    assert checked("127.0.0.1:8080", origin="http://127.0.0.1:3000") == 403
    assert checked("127.0.0.1:8080", origin="http://127.0.0.1:8080") == 200
    assert checked("127.0.0.1:8080", origin="http://[") == 403


def test_the_health_is_told_by_any_name_and_by_none() -> None:
    sites = Sites(BrokerConfig({}), "machine")
    sites.check("GET", "/health/live", ["evil.example"], {})
    sites.check("GET", "/health/ready", [], {})
    with pytest.raises(Problem):
        sites.check("GET", "/healthy", ["evil.example"], {})
    with pytest.raises(Problem):
        sites.check("GET", "/health/live", ["a", "a"], {})
