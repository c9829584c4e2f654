"""Where clients find the brokers.

A broker without `advertised.listeners` tells a client to come back to the address that it dialled: that works through
port mappings and in containers, where the broker cannot know its outside address. It is read at every answer, because
the setting may change while the broker runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from kompat.handlers.base import Context


@dataclass(frozen=True, slots=True)
class Endpoint:
    node_id: int
    host: str
    port: int
    rack: str | None


def this_broker(ctx: Context) -> Endpoint:
    config = ctx.services.config
    host, port = ctx.local_address
    if config["advertised.listeners"]:
        listener = config.advertised
        if listener is not None:
            host, port = listener.host, listener.port
    return Endpoint(ctx.services.node_id, host, port, config["broker.rack"])


def brokers(ctx: Context) -> list[Endpoint]:
    """All brokers of the cluster: this one."""
    return [this_broker(ctx)]
