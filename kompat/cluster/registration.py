"""Joining a cluster: finding the other brokers, founding the cluster or registering with it.

A cluster is founded once. Of the brokers in `kompat.cluster.members` the one with the lowest id founds it, when all of them
are up and none of them has metadata already; or a former single broker that has topics does. The founder is the only voter at
first, and adds the others as they register.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from kompat.cluster.messages import DescribeNode, NodeDescription, RegisterBroker
from kompat.cluster.state import Broker
from kompat.errors import ConfigError, ErrorCode, KafkaError
from kompat.rpc.messages import CONTROLLER
from kompat.rpc.router import Router
from kompat.types import NodeId

if TYPE_CHECKING:
    from kompat.cluster.local_broker import LocalBroker

log = logging.getLogger(__name__)

PAUSE = 0.2  # seconds between two looks
SAY_SO = 5.0  # seconds of waiting, until that is logged for the operator
MEET = 2.0  # seconds in which others may report that they have metadata already
REMIND = 3.0  # seconds between two registrations with the controller
REGISTERED_WITHIN = 5.0


class Registration:
    """How a broker gets a replica of the metadata log, and registers in the metadata."""

    def __init__(self, local: LocalBroker, rpc: Router) -> None:
        self._local = local
        self._rpc = rpc
        self.reported_controller: NodeId | None = None  # by others, before this broker has a replica of the log
        rpc.serve(DescribeNode, self._on_describe)

    async def _on_describe(self, _: DescribeNode) -> NodeDescription:
        metadata = self._local.metadata
        return NodeDescription(
            cluster_id=metadata.image.cluster_id,
            has_metadata=self._has_metadata,
            controller=metadata.controller,
            peers={node: known.peer for node, known in metadata.image.brokers.items() if known.peer is not None},
        )

    @property
    def _has_metadata(self) -> bool:
        return self._local.metadata.log.log_end_offset > 0

    async def first_voters(self) -> tuple[NodeId, ...]:
        """The first voters of a metadata log that never had several: this broker, or none yet."""
        local = self._local
        if self._has_metadata:
            if not local.replication.has_group(local.metadata.log):
                await self._check_alone()
            return (local.me,)  # only used if it has been a single broker so far
        if local.me != min(local.named, default=None):
            return ()
        async for found in self._descriptions(self._others):
            if found.has_metadata:
                return ()
        return (local.me,)

    @property
    def _others(self) -> list[NodeId]:
        return [node for node in self._local.named if node != self._local.me]

    async def _check_alone(self) -> None:
        """A former single broker brings its own metadata, so the others must not have any. Raises ConfigError."""
        others = self._others
        await self._local.network.until(lambda: all(map(self._local.peers.is_up, others)), MEET)
        for node, found in zip(others, await asyncio.gather(*map(self._describe, others)), strict=True):
            if found is not None and found.has_metadata:
                raise ConfigError(
                    f"broker {node} belongs to a cluster, and this one has topics of its own: start it with an empty data "
                    "directory to have it join, or alone as before"
                )

    async def _descriptions(self, nodes: Sequence[NodeId]) -> AsyncIterator[NodeDescription]:
        """The descriptions of all of them, however long it takes until they are up."""
        waited = 0.0
        missing = list(nodes)
        while missing:
            for node in list(missing):
                found = await self._describe(node)
                if found is not None:
                    missing.remove(node)
                    yield found
            if missing:
                await asyncio.sleep(PAUSE)
                waited += PAUSE
                if waited >= SAY_SO:
                    waited = 0.0
                    log.warning("the cluster is founded when all brokers named are there", extra={"missing": missing})

    async def _describe(self, node: NodeId) -> NodeDescription | None:
        try:
            found = await self._rpc.call(node, DescribeNode())
        except KafkaError:
            return None
        self._local.network.follow({known: Broker(known, peer=at) for known, at in found.peers.items()})
        if found.controller is not None:
            self.reported_controller = found.controller
        return found

    async def register(self) -> None:
        """Register with the controller, however long it takes to find one."""
        waited = 0.0
        while not self._is_registered():
            try:
                if self._local.metadata.controller is None:
                    await asyncio.gather(*map(self._describe, self._others))
                await self._rpc.call(CONTROLLER, RegisterBroker(self._local.broker))
                await self._local.network.until(self._is_registered, REGISTERED_WITHIN)
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                waited += PAUSE
                if waited >= SAY_SO or not waited:
                    waited = 0.0
                    log.warning("not registered with the cluster yet", extra={"reason": error})
                await asyncio.sleep(PAUSE)

    def _is_registered(self) -> bool:
        return self._local.metadata.image.brokers.get(self._local.me) == self._local.broker

    async def remind(self) -> None:
        """Register again in case this broker was unregistered: then it may not see that, so it sends it regularly."""
        while True:
            await asyncio.sleep(REMIND)
            with contextlib.suppress(KafkaError):
                await self._rpc.call(CONTROLLER, RegisterBroker(self._local.broker))

    async def others_registered(self) -> None:
        """Wait a little for the other members of the cluster: what is created before they register has too few replicas, and that
        would go unnoticed until one of them is lost."""
        local = self._local
        await local.network.until(lambda: local.named.keys() <= local.metadata.image.brokers.keys(), REGISTERED_WITHIN)
