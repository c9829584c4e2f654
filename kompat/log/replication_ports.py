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

    on_raft: RaftHandler
    on_heartbeats: HeartbeatHandler

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
    """Who acts on who leads."""

    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        """This broker leads, and knows all that was ever committed."""
        ...

    def following(self, partition: Partition, leader: NodeId | None, epoch: LeaderEpoch) -> None:
        """Another does, or nobody knows who."""
        ...

    def members_changed(self, partition: Partition) -> None:
        """Others belong to it now, or, on the leader, others are in sync."""
        ...


class Silent:
    """Nobody listens."""

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
        10_000  # that a replica which may have lost something waits for a leader that knows, before it votes again
    )
    meet_ms: int = (
        3_000  # without a word about what it knows of this one, a broker is taken for one of an older version; 0: never
    )
    seed: int = 0  # of election time-outs
    engine: Settings = field(default_factory=Settings)


def group_key(log: LogId) -> int:
    """What heartbeats call a group by."""
    return int.from_bytes(blake2b(log.key, digest_size=8).digest(), "big")
