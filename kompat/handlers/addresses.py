"""Where clients find the brokers.

A broker without `advertised.listeners` tells a client to come back to the address that it dialled: that works through
port mappings and in containers, where the broker cannot know its outside address. It is read at every answer, because
the setting may change while the broker runs.

Of the brokers of a cluster each has registered the addresses of its listeners, and all of them tell the same. A client is
told those of the listener that it came by; a broker that has no such listener is none that it could talk to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kompat.cluster.state import Broker
from kompat.handlers.base import Context
from kompat.types import NodeId

NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True)
class Endpoint:
    node_id: int
    host: str
    port: int
    rack: str | None


def this_broker(ctx: Context) -> Endpoint:
    config = ctx.services.config
    registered = endpoint_of(ctx, ctx.services.node_id)
    if registered is not None:
        return registered
    host, port = ctx.local_address
    if config["advertised.listeners"]:
        listener = config.advertised.get(ctx.listener or config.listener.name)
        if listener is not None:
            host, port = listener.host, listener.port
    return Endpoint(ctx.services.node_id, host, port, config["broker.rack"])


def brokers(ctx: Context) -> list[Endpoint]:
    """All brokers that are there."""
    member = ctx.services.cluster.member
    if member is None:
        return [this_broker(ctx)]
    there = (node for node in sorted(ctx.services.cluster.brokers) if member.network.is_listed(node))
    return [found for found in (endpoint_of(ctx, node) for node in there) if found is not None]


def controller(ctx: Context, listed: Sequence[Endpoint]) -> int:
    return reachable_controller(
        ctx.services.cluster.controller, ctx.services.node_id, [broker.node_id for broker in listed]
    )


def reachable_controller(known: int | None, me: int, listed: Sequence[int]) -> int:
    """Always one that clients are told of: for one that they cannot reach they wait as long as they wait for anything. Any broker
    sends on what is for the controller."""
    if known is not None and known in listed:
        return known
    if me in listed:
        return me
    return listed[0] if listed else NO_CONTROLLER


def absent_brokers(ctx: Context) -> list[Endpoint]:
    """Those that are registered, and not there."""
    there = {broker.node_id for broker in brokers(ctx)}
    absent = (node for node in sorted(ctx.services.cluster.brokers) if node not in there)
    return [found for found in (endpoint_of(ctx, node) for node in absent) if found is not None]


def endpoint_of(ctx: Context, node: NodeId) -> Endpoint | None:
    """Where a broker of the cluster has registered; None: nowhere, for it is alone."""
    broker: Broker | None = ctx.services.cluster.brokers.get(node)
    if ctx.services.cluster.member is None or broker is None:
        return None
    at = broker.listeners.get(ctx.listener) if ctx.listener and broker.listeners else broker.kafka
    return Endpoint(node, at.host, at.port, broker.rack) if at is not None else None
