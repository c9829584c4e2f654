"""The client at the other end of a socket, as far as the socket identifies it."""

from __future__ import annotations

import asyncio

from kompat.server.dispatch import Client

MAPPED_IPV4 = "::ffff:"


def client_of(transport: asyncio.BaseTransport, listener: str) -> Client:
    local_host, local_port = transport.get_extra_info("sockname")[:2]
    host, port = transport.get_extra_info("peername")[:2]
    # A dual-stack socket shows IPv4 addresses in IPv6's clothes, which an IPv4 client could not dial.
    local_host, host = local_host.removeprefix(MAPPED_IPV4), host.removeprefix(MAPPED_IPV4)
    return Client(
        host=host,
        connection_id=f"{local_host}:{local_port}-{host}:{port}",
        local_address=(local_host, local_port),
        listener=listener,
    )
