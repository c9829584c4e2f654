"""The share coordinator: it has the states of share partitions whose partition of `__share_group_state` this broker leads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar
from uuid import UUID

from kompat.clock import Clock
from kompat.coordination.decision import Decision
from kompat.coordination.runtime import Runtime
from kompat.coordination.shards import InternalTopic, Shards
from kompat.errors import KafkaError
from kompat.log.partition import Partition
from kompat.rpc.router import Router
from kompat.share.machine.state import ShareStateMachine
from kompat.share.records import ShareCodec, ShareKey, ShareRecord
from kompat.share.state_requests import (
    DeleteStates,
    EnsureStates,
    InitializeState,
    ListStates,
    ListTopics,
    ReadState,
    ReadSummary,
    StateRequest,
    WriteState,
)
from kompat.types import Millis

R = TypeVar("R")
StateShard = Runtime[ShareStateMachine, ShareRecord]
Command = Callable[[ShareStateMachine, Any, Millis], Decision[ShareRecord, R]]  # the machine, the request and the time


class ShareCoordinator:
    def __init__(self, topic: InternalTopic, rpc: Router, clock: Clock, updates_per_snapshot: int = 500) -> None:
        """`updates_per_snapshot`: Kafka's `share.coordinator.snapshot.update.records.per.snapshot`."""
        self._rpc = rpc
        self._clock = clock
        self._updates_per_snapshot = updates_per_snapshot
        self._shards = Shards(self._shard, topic)
        self._serve(ReadState, lambda m, r, now: m.begin(r.key, r.start_offset, r.leader_epoch, now, r.writer))
        self._serve(WriteState, lambda m, r, now: m.write_numbered(r.key, r.update, r.fence, now, r.writing))
        self._serve(ReadSummary, lambda m, r, _: m.summary(r.key))
        self._serve(InitializeState, lambda m, r, now: m.initialize(r.key, r.start_offset, r.leader_epoch, None, now))
        self._serve(EnsureStates, lambda m, r, now: m.ensure(r.keys, now))
        self._serve(DeleteStates, lambda m, r, _: m.delete(r.keys))
        self._serve(ListStates, lambda m, r, _: m.keys_of(r.group_id))
        self._serve(ListTopics, lambda m, _, __: m.topics())

    def _serve(self, kind: type[StateRequest[R]], command: Command[R]) -> None:
        async def handle(partition: Partition, request: StateRequest[R]) -> R:
            return await self._shards.at(partition).run(lambda machine: command(machine, request, self._clock.now()))

        self._rpc.serve(kind, handle)

    def _shard(self, partition: Partition) -> StateShard:
        return Runtime(
            lambda: ShareStateMachine(self._updates_per_snapshot),
            ShareCodec(),
            partition,
            clock=self._clock,
            store=partition.store,
            is_leading=partition.is_led,
        )

    async def close(self) -> None:
        await self._shards.close()

    def leading(self, partition: Partition) -> None:
        """This broker leads a partition of `__share_group_state` from now on."""
        self._shards.lead(partition)

    def following(self, partition: Partition) -> None:
        """This broker leads it no longer."""
        self._shards.resign(partition)

    def shard_of(self, key: ShareKey) -> StateShard | None:
        """The shard with a share partition's state; None if another broker has it."""
        try:
            return self._shards.known_shard(key.coordinator_key)
        except KafkaError:
            return None

    async def delete_topics(self, topic_ids: Collection[UUID]) -> None:
        """Delete the states of share partitions whose topics were deleted. Every coordinator does so for its own."""
        for shard in self._shards.all():
            await shard.run(lambda machine: machine.delete_topics(topic_ids))

    async def archiving(self) -> list[ShareKey]:
        """Share partitions whose dead-letter records are still to be written."""
        found: list[ShareKey] = []
        for shard in self._shards.all():
            keys = await shard.run(lambda machine: machine.archiving())
            found += keys
        return found
