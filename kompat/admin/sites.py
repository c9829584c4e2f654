"""Rejects requests that other sites have made a browser send, and requests by host names that others point at this broker.

A page can make its visitor's browser send requests to any address that the browser can reach, with the passwords that the browser has.
It cannot choose the headers `Host`, `Origin` and `Sec-Fetch-*`, which identify it. `Host` is checked first: a page whose host name its
owner points at the broker (DNS rebinding) has, for the browser, the broker's own origin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kompat.admin.problems import BAD_REQUEST, FORBIDDEN, MISDIRECTED, Problem

if TYPE_CHECKING:
    from kompat.config.broker import BrokerConfig

ALLOWED = "kompat.http.allowed.hosts"
ANY = "*"
LOCAL = "localhost"
HEALTH = "/health"
OTHER_SITES = ("cross-site", "same-site")
LOOKS = ("GET", "HEAD")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)(?:%[\w.%-]+)?\]|([\w.-]+))(?::[0-9]*)?", re.ASCII)


class Sites:
    """The host names of this broker, and the checks of a request's origin."""

    def __init__(self, config: BrokerConfig, machine: str) -> None:
        """`machine`: the host name of the broker's machine."""
        self._config = config
        self._machine = machine
        self._version = -1
        self._names: frozenset[str] = frozenset()
        self._suffixes: tuple[str, ...] = ()

    def check(self, method: str, path: str, hosts: Sequence[str], headers: Mapping[str, str]) -> None:
        """Raises a problem. `hosts` are all `Host` headers. Health routes accept any host name, for probes: they have no secrets."""
        if len(hosts) > 1 or (not hosts and not is_health(path)):
            raise Problem(BAD_REQUEST, "A request needs exactly one Host header.")
        if not is_health(path):
            self._check_host(hosts[0])
        self._check_page(method, hosts[0] if hosts else "", headers)

    def _check_host(self, host: str) -> None:
        name = _name_of(host)
        if not (_is_address(name) or self.is_known(name)):
            raise Problem(
                MISDIRECTED,
                f"{(name or host)[:100]!r} is not a host name of this broker. {ALLOWED} can add it.",
                name="unknown-host",
            )

    def is_known(self, name: str) -> bool:
        if self._config.version != self._version:
            self._learn()
        return name in self._names or ANY in self._names or name.endswith(self._suffixes)

    def _learn(self) -> None:
        config = self._config
        listeners = (*config.listeners, *config.advertised.values())
        allowed = config.items(ALLOWED)
        names = (LOCAL, self._machine, config.text("kompat.http.host"), *(each.host for each in listeners), *allowed)
        self._names = frozenset(_plain(name) for name in names if name)
        self._suffixes = tuple(_plain(name[1:]) for name in allowed if name.startswith("*."))
        self._version = config.version

    def _check_page(self, method: str, host: str, headers: Mapping[str, str]) -> None:
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            # A user who follows a link of another site sees the response; the page with the link does not.
            is_link = method in LOOKS and headers.get("sec-fetch-mode") == "navigate" and origin is None
            is_foreign = site in OTHER_SITES and not (is_link and headers.get("sec-fetch-dest") == "document")
        else:
            # If the browser does not send Sec-Fetch-Site, the origin is compared; a proxy may have changed the host.
            is_foreign = origin is not None and not self._is_own(origin, host)
        if is_foreign:
            raise Problem(
                FORBIDDEN, "The request comes from a page of another site. Only the broker's own pages may send it."
            )

    def _is_own(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if not parts.netloc:  # such as `null`
            return False
        return parts.netloc.lower() == host.lower() or _plain(parts.hostname or "") in map(
            _plain, self._config.items(ALLOWED)
        )


def refuse_browsers(headers: Mapping[str, str]) -> None:
    """Reject browsers for a GET that has effects: a page can send it by an image's address.

    Over plain HTTP a browser may omit all headers of the page's site, but it still sends headers that only browsers send."""
    is_browser = (
        "sec-fetch-site" in headers
        or "origin" in headers
        or "referer" in headers
        or headers.get("accept-language", ANY) != ANY
        or headers.get("user-agent", "").lower().startswith(("mozilla/", "opera/"))
    )
    if is_browser:
        raise Problem(
            FORBIDDEN,
            "This GET request changes state (it consumes messages or is a heartbeat): browsers may not send it.",
            name="not-from-a-browser",
        )


def is_health(path: str) -> bool:
    return path == HEALTH or path.startswith(f"{HEALTH}/")


def _name_of(host: str) -> str:
    """The host name without the port; empty if it is not a valid host, which other software might parse as another name."""
    found = _HOST.fullmatch(host)
    return "" if found is None else _plain(found[1] or found[2])


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _is_address(name: str) -> bool:
    """Whether it is an IP address, which DNS rebinding cannot change."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
