"""The client address of a request. Headers of proxies count only if the operator has listed the proxies: any client can send a header."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from kompat.admin.problems import BAD_REQUEST, Problem

Network = IPv4Network | IPv6Network

MAPPED_IPV4 = "::ffff:"
_PARAMETER = re.compile(r'\s*for\s*=\s*(?:"([^"]*)"|([^\s;"]*))\s*', re.IGNORECASE)


def client_address(peer: str, forwarded_for: Sequence[str], forwarded: Sequence[str], proxies: Sequence[str]) -> str:
    """`forwarded_for`, `forwarded`: the headers X-Forwarded-For and Forwarded, in the order of the request.

    A proxy appends the address of its peer. So the list is read from its end, up to the first address that is not one of the proxies.
    Raises a problem if the two headers contradict each other: a proxy that writes one may pass on what a client wrote in the other."""
    peer = peer.removeprefix(MAPPED_IPV4)
    if not proxies or not _is_one(peer, proxies):
        return peer
    found = {
        _behind(peer, list(hops), proxies)
        for hops in (_hops(forwarded_for), _forwarded_hops(forwarded))
        if hops is not None
    }
    if len(found) > 1:
        raise Problem(BAD_REQUEST, "X-Forwarded-For and Forwarded name different clients. The proxy has to remove one.")
    return found.pop() if found else peer


def _behind(peer: str, hops: Sequence[str], proxies: Sequence[str]) -> str:
    for hop in reversed(hops):
        if not _is_one(peer, proxies):
            return peer
        address = _address(hop)
        if address is None:  # unknown, or hidden on purpose: only the proxy's own address is known
            return peer
        peer = address
    return peer


def _is_one(address: str, proxies: Sequence[str]) -> bool:
    try:
        place = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return any(place in ip_network(each, strict=False) for each in proxies)


def _hops(headers: Sequence[str]) -> list[str] | None:
    return ",".join(headers).split(",") if headers else None


def _forwarded_hops(headers: Sequence[str]) -> Iterator[str] | None:
    return map(_for, ",".join(headers).split(",")) if headers else None


def _for(element: str) -> str:
    """The `for` of an element of `Forwarded`; empty if it has none."""
    for part in element.split(";"):
        found = _PARAMETER.fullmatch(part)
        if found is not None:
            return found[1] or found[2] or ""
    return ""


def _address(hop: str) -> str | None:
    """The address without its port."""
    text = hop.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    text = text.removeprefix(MAPPED_IPV4)
    try:
        return str(ip_address(text))
    except ValueError:
        return None
