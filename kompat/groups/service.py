"""Groups for everybody: commands are awaited, each on the partition of `__consumer_offsets` that its group lives in.

A member that joins or syncs may have to wait for others: it hands its future to the machine as a token, and gets its
reply with the outcome of whatever command or time-out makes it due. Should a partition's machine be built anew from the
log, those who wait are told to look for their coordinator again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from kompat.clock import Clock
from kompat.common.slices import sliced
from kompat.coordination.decision import Decision
from kompat.coordination.runtime import Runtime
from kompat.coordination.shards import FAILURES, InternalTopic, Shards
from kompat.errors import ErrorCode, KafkaError
from kompat.groups import commits, expressions
from kompat.groups.batches import GroupBatches, GroupCodec
from kompat.groups.commits import CommitEvents, Moved
from kompat.groups.config import GroupSettings
from kompat.groups.machine.group_machine import GroupMachine
from kompat.groups.machine.messages import (
    CommitRequest,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    FetchedTopic,
    FetchRequest,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeavingMember,
    LeftMember,
    ListedGroup,
    Outcome,
    SyncReply,
    SyncRequest,
    Token,
    TopicErrors,
    TopicOffsets,
)
from kompat.groups.machine.modern import GroupKind
from kompat.groups.machine.state import GroupState
from kompat.groups.machine.topics import Topics
from kompat.groups.records import EndTransaction, GroupRecord, OffsetCommit
from kompat.log.partition import Partition
from kompat.types import NO_PRODUCER, Offset, ProducerEpoch, ProducerId

logger = logging.getLogger(__name__)

T = TypeVar("T")
GroupShard = Runtime[GroupMachine, GroupRecord]
Command = Callable[[GroupMachine], Decision[GroupRecord, Outcome[T]]]


class GroupExtension(Protocol):
    """Groups of another kind than classic and consumer groups."""

    def machine(self, state: GroupState) -> GroupKind: ...

    async def before_deletion(self, groups: GroupService, group_ids: Sequence[str]) -> Mapping[str, ErrorCode]:
        """Groups are to be deleted, of whatever kind: which must not be, and why."""
        ...


class GroupService:
    def __init__(
        self,
        topic: InternalTopic,
        *,
        settings: Callable[[], GroupSettings],
        topics: Topics,
        clock: Clock,
        extensions: Sequence[GroupExtension] = (),
        events: CommitEvents | None = None,
    ) -> None:
        """`events`: who wants to know of commits."""
        self._settings = settings
        self._topics = topics
        self._clock = clock
        self._topic = topic
        self._shards: Shards[GroupMachine, GroupRecord] = Shards(self._runtime, topic)
        self._waiting: dict[int, _Waiting] = {}
        self._commit_watchers: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._extensions = extensions
        self._events = events

    def _make(self) -> GroupMachine:
        machine = GroupMachine(self._settings(), [each.machine for each in self._extensions])
        machine.topics_changed(self._topics)
        return machine

    def _runtime(self, partition: Partition) -> GroupShard:
        if partition.index in self._waiting:  # on a partition that has been deleted
            self._waiting[partition.index].dismiss()
        self._waiting[partition.index] = waiting = _Waiting(self._commit_watchers)
        return Runtime(
            self._make,
            GroupCodec(),
            partition,
            clock=self._clock,
            batches=GroupBatches(),
            listener=waiting,
            ticked=_deliver,
            failures=FAILURES,
            is_leading=partition.is_led,
        )

    def start(self) -> None:
        """Take up the groups that there were, while clients are served already: a command waits for its partition."""
        self._spawn(self._shards.start())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._shards.close()
        self.dismiss()

    def dismiss(self) -> None:
        """Send those who wait for their group to look for another coordinator."""
        for waiting in self._waiting.values():
            waiting.dismiss()

    def leading(self, partition: Partition) -> None:
        """This broker coordinates the groups of a partition of the offsets from now on."""
        self._shards.lead(partition)

    def following(self, partition: Partition) -> None:
        """It does not any more."""
        self._shards.resign(partition)
        waiting = self._waiting.get(partition.index)
        if waiting is not None:
            waiting.dismiss()

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("work on groups failed", exc_info=task.exception())

    # -- what happens around them ----------------------------------------------------------------------------------
    def settings_changed(self) -> None:
        settings = self._settings()
        for runtime in self._shards.opened():
            runtime.machine.settings = settings

    def topics_changed(self, names: Iterable[str], deleted: Sequence[tuple[str, UUID]]) -> None:
        changed = list(names)
        for runtime in self._shards.opened():
            runtime.machine.topics_changed(self._topics, changed)
        if deleted:
            self._spawn(self._forget_topics(deleted))

    async def _forget_topics(self, deleted: Sequence[tuple[str, UUID]]) -> None:
        for runtime in self._shards.opened():
            try:
                await self.run(runtime, lambda m: m.topics_deleted(deleted, self._clock.now()))
            except KafkaError as error:  # of one partition of the offsets: the others forget them all the same
                logger.warning("offsets of deleted topics stay in %s: %s", runtime.partition, error)

    def watch_commits(self, callback: Callable[[], None]) -> None:
        """Be called after offsets may have been committed."""
        self._commit_watchers.append(callback)

    @property
    def knows_all_commits(self) -> bool:
        """Does this broker coordinate all groups?"""
        return all(partition is not None and partition.is_led for partition in self._topic.existing())

    def furthest_offset(self, topic: str, partition: int) -> Offset | None:
        """The highest offset that any group has committed in a partition, as far as groups are loaded."""
        found = [runtime.machine.furthest_offset(topic, partition) for runtime in self._shards.opened()]
        return max((Offset(offset) for offset in found if offset is not None), default=None)

    def coordinated(self) -> list[GroupMachine]:
        """The groups that this broker coordinates, as far as they are loaded."""
        return [runtime.machine for runtime in self._shards.opened()]

    # -- members ---------------------------------------------------------------------------------------------------
    async def partition_of(self, group_id: str) -> int:
        """The partition of the offsets that a group lives in, whoever coordinates it."""
        return await self._shards.partition_of(group_id)

    async def join(self, request: JoinRequest) -> JoinReply:
        reply: asyncio.Future[JoinReply] = asyncio.get_running_loop().create_future()
        await self._wait(request.group_id, reply, lambda m: m.join(request, Token(reply), self._clock.now()))
        return reply.result()

    async def sync(self, request: SyncRequest) -> SyncReply:
        reply: asyncio.Future[SyncReply] = asyncio.get_running_loop().create_future()
        await self._wait(request.group_id, reply, lambda m: m.sync(request, Token(reply), self._clock.now()))
        return reply.result()

    async def _wait(self, group_id: str, reply: asyncio.Future[Any], command: Command[None]) -> None:
        """Hand a token in and wait until it comes back with a reply."""
        runtime = await self._shards.shard(group_id)
        await runtime.load()
        waiting = self._waiting[runtime.partition.index]
        waiting.add(reply)
        try:
            await self.run(runtime, command)
            await reply
        finally:
            waiting.remove(reply)

    async def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        return await self.run_for(request.group_id, lambda m: m.heartbeat(request, self._clock.now()))

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> tuple[LeftMember, ...]:
        return await self.run_for(group_id, lambda m: m.leave(group_id, members, self._clock.now()))

    async def consumer_heartbeat(self, request: ConsumerHeartbeatRequest) -> ConsumerHeartbeatReply:
        await expressions.look_ahead(request, self._topics)
        return await self.run_for(request.group_id, lambda m: m.consumer_heartbeat(request, self._clock.now()))

    # -- offsets ---------------------------------------------------------------------------------------------------
    async def commit_offsets(
        self, request: CommitRequest, check: Callable[[], None] | None = None
    ) -> tuple[TopicErrors, ...]:
        """`check` is called at the last moment, and raises KafkaError where the commit comes too late."""
        moved: list[Moved] = []

        def command(machine: GroupMachine) -> Decision[GroupRecord, Outcome[tuple[TopicErrors, ...]]]:
            if check is not None:
                check()
            if self._events is not None and self._events.is_active and request.producer_id == NO_PRODUCER:
                moved[:] = commits.of_request(machine, request)
            return machine.commit_offsets(request, self._clock.now())

        answers = await self.run_for(request.group_id, command)
        if moved:
            self._report_commits(commits.accepted(moved, answers))
        return answers

    def _report_commits(self, moved: Iterable[Moved]) -> None:
        for each in moved:
            if self._events is not None:
                self._events.committed(each)

    async def fetch_offsets(self, request: FetchRequest) -> tuple[TopicOffsets, ...]:
        return await self.run_for(request.group_id, lambda m: m.fetch_offsets(request))

    async def committed_topics(self, request: FetchRequest) -> tuple[FetchedTopic, ...]:
        return await self.run_for(request.group_id, lambda m: m.committed_topics(request))

    async def delete_offsets(self, group_id: str, topics: Iterable[FetchedTopic]) -> tuple[TopicErrors, ...]:
        wanted = tuple(topics)
        return await self.run_for(group_id, lambda m: m.delete_offsets(group_id, wanted, self._clock.now()))

    async def end_transaction(
        self, partition: Partition, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int
    ) -> None:
        """A transaction's end reaches a partition of the offsets."""
        producer = ProducerId(producer_id), ProducerEpoch(producer_epoch)
        moved: list[Moved] = []

        def command(machine: GroupMachine) -> Decision[GroupRecord, Outcome[None]]:
            if commit and self._events is not None and self._events.is_active:
                moved[:] = commits.of_transaction(machine, producer_id)
            return machine.end_transaction(
                *producer, is_commit=commit, now=self._clock.now(), coordinator_epoch=coordinator_epoch
            )

        await self.run(self._shards.at(partition), command)
        self._report_commits(moved)

    # -- groups as a whole -----------------------------------------------------------------------------------------
    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        named = list(group_ids)
        refused: dict[str, ErrorCode] = {}
        for extension in self._extensions:
            refused |= await extension.before_deletion(self, [each for each in named if each not in refused])
        deleted: list[tuple[str, ErrorCode]] = []
        # One by one: each may have very many offsets.
        async for group_id in sliced([each for each in dict.fromkeys(named) if each not in refused]):
            deleted += await self.run_for_each(
                [group_id],
                lambda ids: lambda m: m.delete_groups(ids, self._clock.now()),
                lambda group_id, error: (group_id, error),
            )
        return {**dict(deleted), **refused}

    async def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        found: list[ListedGroup] = []
        async for runtime in sliced(self._shards.all()):
            try:
                listed = await self.run(runtime, lambda m: m.list_groups(states, types))
                found += listed
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_COORDINATOR:
                    raise  # else another broker tells of them
        return found

    async def describe_groups(self, group_ids: Iterable[str], api_version: int) -> list[DescribedGroup]:
        return await self.run_for_each(
            group_ids, lambda ids: lambda m: m.describe_groups(ids, api_version), DescribedGroup
        )

    async def describe_consumer_groups(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        return await self.run_for_each(
            group_ids, lambda ids: lambda m: m.describe_consumer_groups(ids), DescribedConsumerGroup
        )

    # -- running ---------------------------------------------------------------------------------------------------
    async def run_for_each(
        self,
        group_ids: Iterable[str],
        command: Callable[[list[str]], Command[tuple[T, ...]]],
        refused: Callable[..., T],
    ) -> list[T]:
        """Ask each partition about those of the groups that live there; `refused`: what is said of those whose partition fails."""
        shards: dict[int, list[str]] = defaultdict(list)
        for group_id in dict.fromkeys(group_ids):
            shards[await self._shards.partition_of(group_id)].append(group_id)
        found: list[T] = []
        for ids in shards.values():
            try:
                answered = await self.run_for(ids[0], command(ids))
                found += answered
            except KafkaError as error:
                found += [refused(group_id=group_id, error=error.code) for group_id in ids]
        return found

    async def shard(self, group_id: str) -> GroupShard:
        """What has the group. Raises NOT_COORDINATOR where another broker coordinates it."""
        return await self._shards.shard(group_id)

    async def run_for(self, group_id: str, command: Command[T]) -> T:
        return await self.run(await self._shards.shard(group_id), command)

    async def run(self, runtime: GroupShard, command: Command[T]) -> T:
        outcome = await runtime.run(command)
        _deliver(outcome)
        return outcome.reply


def _deliver(outcome: Outcome[Any]) -> None:
    """Give those who waited their replies."""
    for completion in outcome.completions:
        waiter = completion.token
        if isinstance(waiter, asyncio.Future) and not waiter.done():
            waiter.set_result(completion.reply)


class _Waiting:
    """Who waits on one partition's machine."""

    def __init__(self, commit_watchers: Sequence[Callable[[], None]]) -> None:
        self._futures: set[asyncio.Future[Any]] = set()
        self._commit_watchers = commit_watchers

    def add(self, future: asyncio.Future[Any]) -> None:
        self._futures.add(future)

    def remove(self, future: asyncio.Future[Any]) -> None:
        self._futures.discard(future)

    def committed(self, records: Sequence[GroupRecord]) -> None:
        """Replies come with their commands' outcomes."""
        if any(isinstance(record, OffsetCommit | EndTransaction) for record in records):
            self._notify_watchers()

    def loaded(self) -> None:
        """The machine is a new one: it has none of the tokens."""
        self.dismiss()
        self._notify_watchers()

    def _notify_watchers(self) -> None:
        for callback in self._commit_watchers:
            callback()

    def dismiss(self) -> None:
        for future in self._futures:
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))
