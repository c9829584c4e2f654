"""The states of share groups, which are kept elsewhere: made before their partitions are assigned, deleted before a group is.

Each change is announced in the group's log before it begins and reported there when it is done, so that a broker that
stops in between leaves nothing that is neither.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from kompat.clock import Clock
from kompat.coordination.decision import Decision
from kompat.coordination.runtime import Runtime
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.group_machine import GroupMachine
from kompat.groups.machine.messages import Outcome
from kompat.groups.machine.share_messages import ShareHeartbeatRequest
from kompat.groups.records import Assignment, GroupRecord

logger = logging.getLogger(__name__)

Home = Runtime[GroupMachine, GroupRecord]


class Keeper(Protocol):
    """Who keeps the states."""

    async def make(self, group_id: str, partitions: Assignment) -> None:
        """Let the group have a state for these; those that there are stay as they are."""
        ...

    async def alter(self, group_id: str, offsets: Mapping[UUID, Mapping[int, int]]) -> None:
        """Let the group begin at these offsets."""
        ...

    async def delete(self, group_id: str, partitions: Assignment) -> None: ...


class ShareStates:
    def __init__(self, keeper: Keeper, clock: Clock, run: Callable[[Home, Any], Awaitable[Any]]) -> None:
        self._keeper = keeper
        self._clock = clock
        self._run = run
        self._making: dict[str, asyncio.Future[None]] = {}  # by group

    async def prepare(self, home: Home, request: ShareHeartbeatRequest) -> None:
        """Make the states that a member's heartbeat needs, or wait for whoever makes them already."""
        group_id = request.group_id
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin(machine: GroupMachine) -> Decision[GroupRecord, Outcome[Assignment]]:
            decision = machine.prepare_share(request, self._clock.now())
            if decision.reply.reply:
                self._making[group_id] = done  # at once: the next to ask finds nothing missing any more
            return decision

        try:
            missing: Assignment = await self._run(home, begin)
            under_way = self._making.get(group_id)
            if missing:
                await self.make(home, group_id, missing)
            elif under_way is not None:
                await asyncio.wait((under_way,))
        finally:
            done.set_result(None)
            if self._making.get(group_id) is done:
                del self._making[group_id]

    async def make(self, home: Home, group_id: str, partitions: Assignment) -> None:
        """As announced."""
        try:
            await self._keeper.make(group_id, partitions)
        except KafkaError as error:
            logger.warning("share group %s: its state could not be made: %s", group_id, error)
            await self._report(home, group_id, partitions, ok=False)
        else:
            await self._report(home, group_id, partitions, ok=True)

    async def _report(self, home: Home, group_id: str, partitions: Assignment, *, ok: bool) -> None:
        await self._run(home, lambda m: m.share_states_made(group_id, partitions, ok=ok, now=self._clock.now()))

    async def alter(self, home: Home, group_id: str, offsets: Mapping[UUID, Mapping[int, int]]) -> None:
        partitions = {topic_id: frozenset(each) for topic_id, each in offsets.items()}
        await self._run(home, lambda m: m.begin_share_offsets(group_id, partitions, self._clock.now()))
        try:
            await self._keeper.alter(group_id, offsets)
        except KafkaError:
            await self._report(home, group_id, partitions, ok=False)
            raise
        await self._report(home, group_id, partitions, ok=True)

    async def adopt(self, home: Home, group_id: str, partitions: Assignment) -> None:
        """Somebody who is no member uses these: the group has states of them from now on."""
        known: Assignment = await self._run(home, lambda m: m.share_partitions(group_id))
        missing = {key: left for key, each in partitions.items() if (left := each - known.get(key, frozenset()))}
        if missing:
            await self._run(home, lambda m: m.begin_share_offsets(group_id, missing, self._clock.now()))
            await self._report(home, group_id, missing, ok=True)

    async def delete(self, home: Home, group_id: str, topics: Sequence[str]) -> dict[str, ErrorCode]:
        begun = await self._run(home, lambda m: m.begin_share_offsets_deletion(group_id, topics, self._clock.now()))
        await self._keeper.delete(group_id, begun.partitions)
        if begun.partitions:
            gone = frozenset(begun.partitions)
            await self._run(home, lambda m: m.end_share_offsets_deletion(group_id, gone, self._clock.now()))
        return {**dict.fromkeys(topics, ErrorCode.NONE), **begun.unknown}

    async def delete_all(self, groups: Iterable[tuple[str, Assignment]]) -> dict[str, ErrorCode]:
        """Delete all states of these groups; those where that failed, and why."""
        failed: dict[str, ErrorCode] = {}
        for group_id, partitions in groups:
            try:
                await self._keeper.delete(group_id, partitions)
            except KafkaError as error:
                failed[group_id] = error.code
        return failed
