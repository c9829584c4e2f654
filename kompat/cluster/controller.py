"""The controller, on the broker that leads the metadata log: it decides for the cluster, and does its upkeep."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from kompat.cluster import names
from kompat.cluster.identity import new_cluster_id, new_secret
from kompat.cluster.messages import (
    AllocateProducerIds,
    CreateMissingTopics,
    FinishReassignment,
    ReadMetadataEnd,
    RegisterBroker,
)
from kompat.errors import KafkaError
from kompat.types import NodeId

if TYPE_CHECKING:
    from kompat.cluster.service import ClusterService

log = logging.getLogger(__name__)

MOST_VOTERS = 5  # voters of the metadata log: more would only be slower
LOOK_EVERY = 1.0  # seconds


def choose_voters(now: Collection[NodeId], registered: Collection[NodeId], up: Collection[NodeId]) -> list[NodeId]:
    """The voters of the metadata log: the present ones that are still registered, and others that are up, up to the limit."""
    stay = [node for node in sorted(now) if node in registered]
    others = [node for node in sorted(registered) if node not in stay and node in up]
    return stay + others[: max(0, MOST_VOTERS - len(stay))]


class Controller:
    def __init__(self, cluster: ClusterService) -> None:
        self._cluster = cluster
        self._task: asyncio.Task[None] | None = None
        self._kick = asyncio.Event()
        rpc = cluster.rpc
        rpc.serve(RegisterBroker, self._register)
        rpc.serve(FinishReassignment, self._finish_reassignment)
        rpc.serve(CreateMissingTopics, self._create_missing)
        rpc.serve(AllocateProducerIds, self._allocate_producer_ids)
        rpc.serve(ReadMetadataEnd, self._read_end)

    # -- requests --------------------------------------------------------------------------------------------------
    async def _register(self, request: RegisterBroker) -> None:
        await self._cluster.run(
            lambda machine: machine.join(request.broker, cluster_id=new_cluster_id(), secret=new_secret())
        )

    async def _finish_reassignment(self, request: FinishReassignment) -> None:
        topic, index = request.log_id.topic_id, request.log_id.partition
        await self._cluster.run(lambda machine: machine.arrived(topic, index, request.replicas))

    async def _create_missing(self, request: CreateMissingTopics) -> dict[str, KafkaError]:
        if any(map(names.is_internal, request.names)):
            await self._cluster.local.registration.others_registered()
        return await self._cluster.create_with_defaults(request.names)

    async def _allocate_producer_ids(self, _: AllocateProducerIds) -> tuple[int, int]:
        block = await self._cluster.run(lambda machine: machine.allocate_producer_ids())
        return block.start, block.stop

    async def _read_end(self, _: ReadMetadataEnd) -> int:
        return self._cluster.end

    # -- duties ----------------------------------------------------------------------------------------------------
    def lead(self) -> None:
        self.resign()
        self._task = asyncio.ensure_future(self._work())

    def resign(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        task = self._task
        self.resign()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def look(self) -> None:
        """Check whether there is something to do."""
        self._kick.set()

    async def _work(self) -> None:
        with contextlib.suppress(KafkaError):
            await self._cluster.mend_internal_topics()
        while self._cluster.local.has_peers:
            self._kick.clear()
            try:
                await self._keep_voters()
                await self._cluster.drain()
            except KafkaError as error:
                log.info("the controller tries again", extra={"reason": error})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._kick.wait()

    async def _keep_voters(self) -> None:
        local = self._cluster.local
        replica = local.leadership.replica(self._cluster.log.log_id)
        if replica is None:
            return
        registered = {*self._cluster.brokers, local.me}
        up = [node for node in registered if node == local.me or local.peers.is_up(node)]
        voters = choose_voters(replica.voters, registered, up)
        learners = [node for node in up if node not in voters]
        if set(voters) != set(replica.voters) or not set(learners) <= set(replica.learners):
            await replica.change_members(voters, learners)
