"""The cluster's metadata log on this broker.

On the broker that leads the log, the controller, a machine decides its records. Every broker, the controller too, reads the
committed records from its own replica of the log and applies them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar
from uuid import UUID

from kompat.clock import Clock
from kompat.cluster import names
from kompat.cluster.machine import ClusterMachine
from kompat.cluster.publisher import Publisher
from kompat.cluster.records import ClusterCodec, ClusterRecord
from kompat.cluster.state import ClusterState
from kompat.config.topic import TopicConfig
from kompat.coordination.batches import RememberedBatches
from kompat.coordination.decision import Decision
from kompat.coordination.following import Following
from kompat.coordination.runtime import Runtime
from kompat.errors import ErrorCode
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.types import LogId, Offset

METADATA_LOG = LogId(UUID(int=1), 0)
CATCH_UP = 5.0  # seconds until committed records are read here
_CONFIG = TopicConfig(
    retention_ms=-1, segment_bytes=1 << 30, segment_ms=24 * 3_600_000, max_message_bytes=(1 << 31) - 1
)
# The errors of clients when the controller's log fails: they look up the controller and retry.
_FAILURES = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.NOT_CONTROLLER,
}

T = TypeVar("T")


class Listener(Protocol):
    """Applies the metadata on this broker, in steps. `end`: the offset up to which it is applied."""

    def take_over(self, image: ClusterState, end: Offset) -> Iterator[None]:
        """Everything received before is invalid."""
        ...

    def follow(self, records: Sequence[ClusterRecord], end: Offset) -> Iterator[None]: ...


class MetadataLog:
    def __init__(self, clock: Clock, logs: Logs, listener: Listener) -> None:
        self.log: Partition = logs.open_private(METADATA_LOG, names.CLUSTER_METADATA, 0, _CONFIG)
        self._listener = listener
        codec = ClusterCodec()
        batches: RememberedBatches[ClusterRecord] = RememberedBatches(codec)
        self._runtime: Runtime[ClusterMachine, ClusterRecord] = Runtime(
            ClusterMachine,
            codec,
            self.log,
            clock=clock,
            batches=batches,
            store=self.log.store,
            failures=_FAILURES,
            is_leading=False,
        )
        self._following: Following[ClusterMachine, ClusterRecord] = Following(
            ClusterMachine, codec, self.log, self, batches
        )
        self._publisher = Publisher(self._following.rebuild)

    async def start(self) -> None:
        """Read the committed records, and follow the log from there on."""
        await self._following.start()
        await self._publisher.published()

    async def close(self) -> None:
        await self._following.close()
        await self._publisher.close()
        with contextlib.suppress(TimeoutError):  # records without other replicas may never be committed
            await asyncio.wait_for(self._runtime.close(), CATCH_UP)

    # -- reading ---------------------------------------------------------------------------------------------------
    def rebuilt(self, machine: ClusterMachine) -> None:
        self._publisher.replace(self._listener.take_over(machine.state, self._following.position))

    def committed(self, records: Sequence[ClusterRecord]) -> None:
        self._publisher.publish(self._listener.follow(records, self._following.position))

    @property
    def has_skipped(self) -> bool:
        """Whether some records could not be read."""
        return self._following.skipped.count > 0

    async def reach(self, offset: Offset, seconds: float) -> bool:
        """Wait until this broker has all metadata before an offset; returns whether it did so in time."""
        try:
            async with asyncio.timeout(seconds):
                is_read = await self._following.reach(offset, seconds)
                await self._publisher.published()
                return is_read
        except TimeoutError:
            return False

    # -- deciding --------------------------------------------------------------------------------------------------
    @property
    def is_controller(self) -> bool:
        return self._runtime.is_leading

    async def run(self, command: Callable[[ClusterMachine], Decision[ClusterRecord, T]]) -> T:
        """Run a command; the reply comes when its effect is visible on this broker. Raises NOT_CONTROLLER."""
        reply = await self._runtime.run(command)
        await self._following.reach(self._runtime.committed_offset, CATCH_UP)
        await self._publisher.published()
        return reply

    def lead(self) -> None:
        self._runtime.lead().add_done_callback(_look_at)

    def resign(self) -> None:
        self._runtime.resign()


def _look_at(done: asyncio.Task[None]) -> None:
    """A failed load is repeated with the next command, which gets its error."""
    if not done.cancelled():
        done.exception()
