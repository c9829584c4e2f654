"""Puts together what a broker needs to be one of several, from its settings."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack

from kompat.clock import Clock
from kompat.cluster.local_broker import BrokerParts
from kompat.cluster.state import Address, Broker
from kompat.config.broker import BrokerConfig
from kompat.errors import ConfigError
from kompat.log.commit import GroupCommit
from kompat.raft.links.identity import identity_from
from kompat.raft.peers import Peers
from kompat.raft.ports import ReplicationSettings
from kompat.raft.replication import Replication
from kompat.types import NodeId

MEMBERS = "kompat.cluster.members"
LISTENER = "kompat.cluster.listener"


async def build(
    config: BrokerConfig, clock: Clock, commit: GroupCommit, kafka: Mapping[str, Address], built: AsyncExitStack
) -> BrokerParts:
    """`kafka`: where this broker listens for clients, by listener. What has to be closed again is put on the stack."""
    me = NodeId(config.node_id)
    named = parse_members(config[MEMBERS])
    peers = Peers(me, identity_from(config))
    replication = Replication(
        me, peers, commit, clock, ReplicationSettings(lag_ms=config["replica.lag.time.max.ms"], seed=me)
    )
    built.push_async_callback(replication.close)
    built.push_async_callback(peers.close)
    where = _where(config, named.get(me))
    host, port = await peers.listen(where.host, where.port)
    peer = Address(named[me].host if me in named else _reachable(host), port)
    advertised = _advertised(config, kafka, peer)
    broker = Broker(
        me, config["broker.rack"], advertised[config.listener.name], peer, advertised, replication.directory
    )
    interval = config["leader.imbalance.check.interval.seconds"] if config["auto.leader.rebalance.enable"] else 0
    return BrokerParts(broker, peers, replication, named, interval)


def parse_members(texts: tuple[str, ...]) -> dict[NodeId, Address]:
    """`1@host:port`, several."""
    found: dict[NodeId, Address] = {}
    for text in texts:
        number, at, place = text.partition("@")
        if not at or not (number.isascii() and number.isdigit()):
            raise ConfigError(f"{MEMBERS}: {text!r} is not of the form NODE@host:port")
        if NodeId(int(number)) in found:
            raise ConfigError(f"{MEMBERS}: broker {number} is named twice")
        found[NodeId(int(number))] = parse_address(MEMBERS, place)
    return found


def parse_address(setting: str, text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"{setting}: {text!r} is not of the form host:port")
    return Address(host.strip("[]"), int(port))


def _where(config: BrokerConfig, named: Address | None) -> Address:
    """Where other brokers find this one, if they are not told."""
    if config[LISTENER]:
        return parse_address(LISTENER, config[LISTENER])
    return named or Address(config.listener.host, 0)


def _advertised(config: BrokerConfig, kafka: Mapping[str, Address], peer: Address) -> dict[str, Address]:
    """What clients of each listener are told."""
    heard = {name: Address(peer.host if _is_any(at.host) else at.host, at.port) for name, at in kafka.items()}
    return heard | {name: Address(listener.host, listener.port) for name, listener in config.advertised.items()}


def _reachable(host: str) -> str:
    return socket.gethostname() if _is_any(host) else host


def _is_any(host: str) -> bool:
    return host in ("", "0.0.0.0", "::")  # noqa: S104 - it is looked for, not listened on
