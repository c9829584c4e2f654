"""The addresses of brokers in responses.

A broker without `advertised.listeners` returns the address that the client has connected to: that works through port mappings
and in containers, where the broker cannot know its outside address. It is read for every response, because the setting may
change while the broker runs.

Each broker of a cluster has registered the addresses of its listeners. A client gets those of the listener that it has
connected to; a broker without such a listener is left out, because the client could not reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kompat.cluster.state import Broker
from kompat.handlers.support.base import Context
from kompat.types import NodeId

NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True)
class Endpoint:
    node_id: int
    host: str
    port: int
    rack: str | None


def this_broker(ctx: Context) -> Endpoint:
    return endpoint_of(ctx, ctx.services.node_id) or _dialled(ctx)


def _dialled(ctx: Context) -> Endpoint:
    """This broker, where it has registered no addresses, for it is alone."""
    config = ctx.services.config
    host, port = ctx.local_address
    if config["advertised.listeners"]:
        listener = config.advertised.get(ctx.listener or config.listener.name)
        if listener is not None:
            host, port = listener.host, listener.port
    return Endpoint(ctx.services.node_id, host, port, config["broker.rack"])


def brokers(ctx: Context) -> list[Endpoint]:
    """All brokers that are there."""
    cluster = ctx.services.cluster
    there = (node for node in sorted(cluster.brokers) if cluster.local.network.is_listed(node))
    return [found for found in (endpoint_of(ctx, node) for node in there) if found is not None]


def controller(ctx: Context, listed: Sequence[Endpoint]) -> int:
    return reachable_controller(
        ctx.services.cluster.controller, ctx.services.node_id, [broker.node_id for broker in listed]
    )


def reachable_controller(known: int | None, me: int, listed: Sequence[int]) -> int:
    """Always a broker that is in the response: for one that they cannot reach, clients wait until their timeout. Any broker forwards
    requests to the controller."""
    if known is not None and known in listed:
        return known
    if me in listed:
        return me
    return listed[0] if listed else NO_CONTROLLER


def absent_brokers(ctx: Context) -> list[Endpoint]:
    """The brokers that are registered, and not running."""
    there = {broker.node_id for broker in brokers(ctx)}
    absent = (node for node in sorted(ctx.services.cluster.brokers) if node not in there)
    return [found for found in (endpoint_of(ctx, node) for node in absent) if found is not None]


def endpoint_of(ctx: Context, node: NodeId) -> Endpoint | None:
    """Where clients of this listener find a broker of the cluster; None: nowhere."""
    broker: Broker | None = ctx.services.cluster.brokers.get(node)
    if broker is None:
        return None
    if node == ctx.services.node_id and broker.kafka is None:
        return _dialled(ctx)
    at = broker.listeners.get(ctx.listener) if ctx.listener and broker.listeners else broker.kafka
    return Endpoint(node, at.host, at.port, broker.rack) if at is not None else None
