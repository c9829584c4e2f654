"""What replication needs of the layers around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from kompat.log.partition import Partition
from kompat.raft.engine import Settings
from kompat.types import Buffer, LeaderEpoch, LogId, NodeId

RaftHandler = Callable[[NodeId, bytes, memoryview, list[memoryview]], None]
HeartbeatHandler = Callable[[NodeId, memoryview], None]
CallHandler = Callable[[NodeId, memoryview], Awaitable[Sequence[Buffer]]]
StreamHandler = Callable[[NodeId, bytes, AsyncIterator[memoryview]], Awaitable[bytes]]


class Peers(Protocol):
    """The links to the other brokers."""

    def receive_raft(self, on_raft: RaftHandler, on_heartbeats: HeartbeatHandler) -> None:
        """Have these called with what comes, from here on."""
        ...

    @property
    def on_call(self) -> dict[int, CallHandler]: ...

    @property
    def on_stream(self) -> dict[int, StreamHandler]: ...

    def is_up(self, node: NodeId) -> bool: ...

    def send_raft(self, to: NodeId, group: bytes, header: bytes, payloads: Sequence[Buffer]) -> bool:
        """False: it is dropped."""
        ...

    def send_heartbeats(self, to: NodeId, blob: bytes) -> bool: ...

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109
        """Raises PeerError, or the KafkaError of the peer's handler."""
        ...

    async def stream(
        self, to: NodeId, kind: int, head: bytes, chunks: AsyncIterator[Sequence[Buffer]]
    ) -> memoryview: ...


class RoleListener(Protocol):
    """A listener for changes of leadership."""

    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        """This broker leads, and has all that was ever committed."""
        ...

    def following(self, partition: Partition, leader: NodeId | None, epoch: LeaderEpoch) -> None:
        """Another broker leads, or the leader is unknown."""
        ...

    def members_changed(self, partition: Partition) -> None:
        """The members have changed, or, on the leader, the in-sync replicas."""
        ...


class Silent:
    """A listener that does nothing."""

    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        pass

    def following(self, partition: Partition, leader: NodeId | None, epoch: LeaderEpoch) -> None:
        pass

    def members_changed(self, partition: Partition) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    tick_ms: int = 100
    lag_ms: int = 30_000  # replica.lag.time.max.ms
    quiet_after: int = 50  # ticks without anything to do, after which a group stops its heartbeats; 0: never
    doubt_ms: int = (
        10_000  # that a replica which may have lost entries waits for an up-to-date leader, before it votes again
    )
    meet_ms: int = (
        3_000  # after which a broker that has not sent its incarnation is taken for one of an older version; 0: never
    )
    seed: int = 0  # of election time-outs
    engine: Settings = field(default_factory=Settings)


def group_key(log: LogId) -> int:
    """The id of a group in heartbeats."""
    return int.from_bytes(blake2b(log.key, digest_size=8).digest(), "big")
