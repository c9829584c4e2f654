"""Initializes share groups' states at the share coordinator before partitions are assigned, and deletes them with the group.

Each change is written to the group's log before it begins and when it is done, so that a broker that stops in between
leaves no state that is unknown to the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from uuid import UUID

from kompat.clock import Clock
from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.group_machine import GroupMachine
from kompat.groups.machine.messages import Outcome
from kompat.groups.records import Assignment, GroupRecord
from kompat.groups.service import GroupService, GroupShard
from kompat.share.groups.machine.commands import ShareGroups
from kompat.share.groups.machine.messages import ShareHeartbeatRequest
from kompat.share.offsets import ShareOffsets
from kompat.types import LogId, Offset

logger = logging.getLogger(__name__)


class StateInitializer:
    def __init__(self, groups: GroupService, offsets: ShareOffsets, clock: Clock) -> None:
        self._groups = groups
        self._offsets = offsets
        self._clock = clock
        self._making: dict[str, asyncio.Future[None]] = {}  # by group

    async def prepare(self, shard: GroupShard, request: ShareHeartbeatRequest) -> None:
        """Initialize the states that a member's heartbeat needs, or wait until another heartbeat has."""
        group_id = request.group_id
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin(machine: GroupMachine) -> Decision[GroupRecord, Outcome[Assignment]]:
            decision = ShareGroups(machine).prepare(request, self._clock.now())
            if decision.reply.reply:
                self._making[group_id] = done  # in this turn: the next heartbeat finds nothing missing
            return decision

        try:
            missing: Assignment = await self._groups.run(shard, begin)
            under_way = self._making.get(group_id)
            if missing:
                await self.make(shard, group_id, missing)
            elif under_way is not None:
                await asyncio.wait((under_way,))
        finally:
            done.set_result(None)
            if self._making.get(group_id) is done:
                del self._making[group_id]

    async def make(self, shard: GroupShard, group_id: str, partitions: Assignment) -> None:
        """Initialize what was announced."""
        try:
            await self._offsets.ensure(group_id, flat(partitions))
        except KafkaError as error:
            logger.warning("share group %s: its state could not be made: %s", group_id, error)
            await self._report(shard, group_id, partitions, ok=False)
        else:
            await self._report(shard, group_id, partitions, ok=True)

    async def _report(self, shard: GroupShard, group_id: str, partitions: Assignment, *, ok: bool) -> None:
        await self._groups.run(
            shard, lambda m: ShareGroups(m).states_made(group_id, partitions, ok=ok, now=self._clock.now())
        )

    async def alter(self, shard: GroupShard, group_id: str, offsets: Mapping[UUID, Mapping[int, int]]) -> None:
        partitions = {topic_id: frozenset(each) for topic_id, each in offsets.items()}
        await self._groups.run(shard, lambda m: ShareGroups(m).begin_offsets(group_id, partitions, self._clock.now()))
        try:
            await self._offsets.alter(
                group_id,
                {
                    LogId(topic_id, partition): Offset(offset)
                    for topic_id, starts in offsets.items()
                    for partition, offset in starts.items()
                },
            )
        except KafkaError:
            await self._report(shard, group_id, partitions, ok=False)
            raise
        await self._report(shard, group_id, partitions, ok=True)

    async def adopt(self, shard: GroupShard, group_id: str, partitions: Assignment) -> None:
        """A client that is not a member uses these partitions: initialize the group's states for them."""
        known: Assignment = await self._groups.run(shard, lambda m: ShareGroups(m).partitions(group_id))
        missing = {key: left for key, each in partitions.items() if (left := each - known.get(key, frozenset()))}
        if missing:
            await self._groups.run(shard, lambda m: ShareGroups(m).begin_offsets(group_id, missing, self._clock.now()))
            await self._report(shard, group_id, missing, ok=True)

    async def delete(self, shard: GroupShard, group_id: str, topics: Sequence[str]) -> dict[str, ErrorCode]:
        begun = await self._groups.run(
            shard, lambda m: ShareGroups(m).begin_offsets_deletion(group_id, topics, self._clock.now())
        )
        await self._offsets.delete(group_id, flat(begun.partitions))
        if begun.partitions:
            gone = frozenset(begun.partitions)
            await self._groups.run(
                shard, lambda m: ShareGroups(m).end_offsets_deletion(group_id, gone, self._clock.now())
            )
        return {**dict.fromkeys(topics, ErrorCode.NONE), **begun.unknown}


def flat(partitions: Assignment) -> list[LogId]:
    return [LogId(topic_id, number) for topic_id, part in partitions.items() for number in sorted(part)]
