"""What a browser may have sent for somebody else is refused: pages of other sites, and names that others point at this broker.

A page can have its visitor's browser send requests to whatever the browser can reach, with the passwords that the browser knows. It
cannot choose the headers `Host`, `Origin` and `Sec-Fetch-*` that come with them, and by those it is known. `Host` comes first: a page
whose name its owner points at the broker (DNS rebinding) is, to the browser, the broker's own.
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
    """The names by which this broker is known, and the checks of who sent a request by one of them."""

    def __init__(self, config: BrokerConfig, machine: str) -> None:
        """`machine`: the name of the host that the broker runs on."""
        self._config = config
        self._machine = machine
        self._version = -1
        self._names: frozenset[str] = frozenset()
        self._suffixes: tuple[str, ...] = ()

    def check(self, method: str, path: str, hosts: Sequence[str], headers: Mapping[str, str]) -> None:
        """Raises a problem. `hosts`: all headers of that name. Probes ask for the health by any name: it is no secret."""
        if len(hosts) > 1 or (not hosts and not is_health(path)):
            raise Problem(BAD_REQUEST, "A request has one header Host, with the name that the broker was called by.")
        if not is_health(path):
            self._check_host(hosts[0])
        self._check_page(method, hosts[0] if hosts else "", headers)

    def _check_host(self, host: str) -> None:
        name = _name_of(host)
        if not (_is_address(name) or self.is_known(name)):
            raise Problem(
                MISDIRECTED,
                f"This broker does not go by the name {(name or host)[:100]!r}. Where it should, {ALLOWED} has to list the name.",
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
            # Whoever follows a link from elsewhere sees the answer himself, and the page that had the link does not.
            is_link = method in LOOKS and headers.get("sec-fetch-mode") == "navigate" and origin is None
            is_foreign = site in OTHER_SITES and not (is_link and headers.get("sec-fetch-dest") == "document")
        else:
            # Where the browser does not say it itself, the addresses are compared; a proxy may have changed one of them.
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
    """For what has effects although it is a GET: a page can have it sent by no more than an image's address.

    Over plain HTTP a browser may leave out all that would tell the page's site. It tells that it is a browser all the same."""
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
            "This GET takes messages, or says that somebody is there: it is for programs, and no browser may send it.",
            name="not-from-a-browser",
        )


def is_health(path: str) -> bool:
    return path == HEALTH or path.startswith(f"{HEALTH}/")


def _name_of(host: str) -> str:
    """Without the port; empty where it is not a host: what others might read as another name is not read as one of ours."""
    found = _HOST.fullmatch(host)
    return "" if found is None else _plain(found[1] or found[2])


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _is_address(name: str) -> bool:
    """Nobody can point an address elsewhere."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
