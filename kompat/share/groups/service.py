"""Share groups: heartbeats, descriptions, and start offsets.

They are one of the types of groups of the group coordinator, in the partitions of `__consumer_offsets`; the share
coordinator has the states of their share partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from kompat.clock import Clock
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.state import GroupState
from kompat.groups.records import Assignment
from kompat.groups.service import GroupService
from kompat.share.groups.initializing import StateInitializer, flat
from kompat.share.groups.machine.commands import ShareGroups
from kompat.share.groups.machine.heartbeat import ShareProtocol
from kompat.share.groups.machine.messages import DescribedShareGroup, ShareHeartbeatReply, ShareHeartbeatRequest
from kompat.share.offsets import ShareOffsets

logger = logging.getLogger(__name__)


class ShareGroupExtension:
    """The extension that the group coordinator is composed with."""

    def __init__(self, offsets: ShareOffsets, clock: Clock) -> None:
        self._offsets = offsets
        self._clock = clock

    def machine(self, state: GroupState) -> ShareProtocol:
        return ShareProtocol(state)

    async def before_deletion(self, groups: GroupService, group_ids: Sequence[str]) -> Mapping[str, ErrorCode]:
        """A share group can only be deleted after all its states."""
        failed: dict[str, ErrorCode] = {}

        def refused(group_id: str, error: ErrorCode) -> tuple[str, Assignment]:
            failed[group_id] = error
            return group_id, {}

        begun = await groups.run_for_each(
            group_ids, lambda ids: lambda m: ShareGroups(m).begin_deletion(ids, self._clock.now()), refused
        )
        for group_id, partitions in begun:
            if group_id not in failed:
                try:
                    await self._offsets.delete(group_id, flat(partitions))
                except KafkaError as error:
                    failed[group_id] = error.code
        return failed


class ShareGroupService:
    def __init__(self, groups: GroupService, offsets: ShareOffsets, clock: Clock) -> None:
        """`groups` are composed with the ShareGroupExtension."""
        self._groups = groups
        self._clock = clock
        self._states = StateInitializer(groups, offsets, clock)
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def heartbeat(self, request: ShareHeartbeatRequest) -> ShareHeartbeatReply:
        shard = await self._groups.shard(request.group_id)
        if request.subscribed_topic_names:
            # So that a member gets an assignment at once; with Kafka it would wait for its next heartbeat.
            await self._states.prepare(shard, request)
        reply = await self._groups.run(shard, lambda m: ShareGroups(m).heartbeat(request, self._clock.now()))
        if reply.uninitialized:
            self._spawn(self._states.make(shard, request.group_id, reply.uninitialized))
        return reply

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("states of a share group could not be made", exc_info=task.exception())

    async def describe(self, group_ids: Iterable[str]) -> list[DescribedShareGroup]:
        return await self._groups.run_for_each(
            group_ids, lambda ids: lambda m: ShareGroups(m).describe(ids), DescribedShareGroup
        )

    # -- where they begin ------------------------------------------------------------------------------------------
    async def alter_offsets(self, group_id: str, offsets: Mapping[UUID, Mapping[int, int]]) -> None:
        """Set the start offsets of a share group without members, and create the group if it does not exist."""
        await self._states.alter(await self._groups.shard(group_id), group_id, offsets)

    async def adopt(self, group_id: str, partitions: Assignment) -> None:
        """A client that is not a member uses these partitions: initialize the group's states for them."""
        await self._states.adopt(await self._groups.shard(group_id), group_id, partitions)

    async def delete_offsets(self, group_id: str, topics: Iterable[str]) -> dict[str, ErrorCode]:
        """Delete the offsets of a share group without members for these topics, by name."""
        return await self._states.delete(await self._groups.shard(group_id), group_id, list(topics))
