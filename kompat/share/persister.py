"""Reads and writes the states of share partitions at their coordinators, on whichever broker they are (Kafka's Persister)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from kompat.coordination.shards import InternalTopic, partition_for
from kompat.rpc.messages import Coordinator
from kompat.rpc.router import Router
from kompat.share.machine.messages import Update
from kompat.share.machine.state import Fence, Stored, Summary, Writing
from kompat.share.records import ShareKey
from kompat.share.state_requests import (
    DeleteStates,
    EnsureStates,
    InitializeState,
    ListStates,
    ListTopics,
    ReadState,
    ReadSummary,
    WriteState,
)
from kompat.types import LeaderEpoch, Offset


class Persister:
    def __init__(self, topic: InternalTopic, rpc: Router) -> None:
        self._topic = topic
        self._rpc = rpc

    # -- one share partition ---------------------------------------------------------------------------------------
    async def read(self, key: ShareKey, start: Offset, leader_epoch: LeaderEpoch, writer: str) -> Stored:
        """The state of a share partition, which only this writer may change from now on."""
        return await self._rpc.call(self._coordinator(key), ReadState(key, start, leader_epoch, writer))

    async def write(self, key: ShareKey, update: Update, fence: Fence, writing: Writing) -> None:
        await self._rpc.call(self._coordinator(key), WriteState(key, update, fence, writing))

    async def summary(self, key: ShareKey) -> Summary:
        if not self._topic.log_ids():
            return Summary()
        return await self._rpc.call(self._coordinator(key), ReadSummary(key))

    async def initialize(self, key: ShareKey, offset: Offset, leader_epoch: LeaderEpoch) -> None:
        """Reset the group to this offset."""
        await self._rpc.call(self._coordinator(key), InitializeState(key, offset, leader_epoch))

    def _coordinator(self, key: ShareKey) -> Coordinator:
        return Coordinator(self._topic.name, key.coordinator_key)

    # -- many ------------------------------------------------------------------------------------------------------
    async def ensure(self, keys: Iterable[ShareKey]) -> None:
        """Initialize the state of these."""
        parts = _parts(keys, len(await self._topic.ensure()))
        await asyncio.gather(*(self._rpc.call(self._coordinator(part[0]), EnsureStates(part)) for part in parts))

    async def delete(self, keys: Iterable[ShareKey]) -> None:
        count = len(self._topic.log_ids())
        parts = _parts(keys, count) if count else []
        await asyncio.gather(*(self._rpc.call(self._coordinator(part[0]), DeleteStates(part)) for part in parts))

    async def keys_of(self, group_id: str) -> list[ShareKey]:
        """The states of all share partitions of the group."""
        log_ids = self._topic.log_ids()
        found = await asyncio.gather(*(self._rpc.call(log_id, ListStates(group_id)) for log_id in log_ids))
        return [key for keys in found for key in keys]

    async def topics(self) -> set[tuple[str, UUID]]:
        """All groups with the topics that they have a state for."""
        found = await asyncio.gather(*(self._rpc.call(log_id, ListTopics()) for log_id in self._topic.log_ids()))
        return {pair for part in found for pair in part}


def _parts(keys: Iterable[ShareKey], count: int) -> list[tuple[ShareKey, ...]]:
    """Share partitions that have the same coordinator."""
    parts: dict[int, list[ShareKey]] = defaultdict(list)
    for key in keys:
        parts[partition_for(key.coordinator_key, count)].append(key)
    return [tuple(part) for part in parts.values()]
