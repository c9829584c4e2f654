"""Raft's numbers of partitions, as those who lead them tell them."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import convert

from kompat.admin.route import Call
from kompat.admin.shapes import Answer
from kompat.admin.spread import AT_A_TIME, leader, together
from kompat.cluster.names import CLUSTER_METADATA
from kompat.slices import sliced
from kompat.types import NodeId


class RaftPeer(Answer):
    id: int
    match_index: int
    lag: int
    state: str
    is_voter: bool


class RaftGroup(Answer):
    topic: str
    partition: int
    term: int
    role: str
    leader: int | None
    commit_index: int
    applied_index: int
    last_index: int
    peers: list[RaftPeer]


async def raft_of(call: Call, places: list[tuple[str, int]]) -> list[RaftGroup]:
    """Those of the partitions that somebody leads."""
    by_node: dict[NodeId, list[tuple[str, int]]] = {}
    async for topic, partition in sliced(places):
        node = call.services.cluster.controller if topic == CLUSTER_METADATA else leader(call, topic, partition)
        if node is not None:
            by_node.setdefault(node, []).append((topic, partition))
    told = await together(_told(call, node, led) for node, led in by_node.items())
    return sorted((group for groups in told for group in groups), key=lambda group: (group.topic, group.partition))


async def _told(call: Call, node: NodeId, led: list[tuple[str, int]]) -> list[RaftGroup]:
    """Some at a time: to gather them takes the broker a while."""
    rows: list[dict[str, Any]] = []
    for start in range(0, len(led), AT_A_TIME):
        rows += await call.telling.ask(node, "raft", led[start : start + AT_A_TIME])
        await asyncio.sleep(0)
    return [convert({_camel(k): v for k, v in _peers(row).items()}, RaftGroup) async for row in sliced(rows)]


def _peers(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "peers": [{_camel(name): value for name, value in peer.items()} for peer in row["peers"]]}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
