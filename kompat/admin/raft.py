"""The Raft state of partitions, from their leaders."""

from __future__ import annotations

import asyncio

from kompat.admin.broker_info import DescribeRaftGroups, RaftGroup
from kompat.admin.fan_out import AT_A_TIME, leader, together
from kompat.admin.route import Call
from kompat.cluster.names import CLUSTER_METADATA
from kompat.common.slices import sliced
from kompat.types import NodeId


async def raft_of(call: Call, places: list[tuple[str, int]]) -> list[RaftGroup]:
    """The Raft groups of partitions that have a leader."""
    by_node: dict[NodeId, list[tuple[str, int]]] = {}
    async for topic, partition in sliced(places):
        node = call.services.cluster.controller if topic == CLUSTER_METADATA else leader(call, topic, partition)
        if node is not None:
            by_node.setdefault(node, []).append((topic, partition))
    found = await together(_groups(call, node, led) for node, led in by_node.items())
    return sorted((group for groups in found for group in groups), key=lambda group: (group.topic, group.partition))


async def _groups(call: Call, node: NodeId, led: list[tuple[str, int]]) -> list[RaftGroup]:
    """Request some at a time, because describing many would hold the broker's event loop."""
    groups: list[RaftGroup] = []
    for start in range(0, len(led), AT_A_TIME):
        groups += await call.services.cluster.rpc.call(node, DescribeRaftGroups(led[start : start + AT_A_TIME]))
        await asyncio.sleep(0)
    return groups
