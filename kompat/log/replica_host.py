"""The broker, as a replica sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kompat.raft.engine import GroupState, Message, RaftGroup, Ready
from kompat.types import Millis, NodeId

if TYPE_CHECKING:
    from kompat.errors import DamagedBatch
    from kompat.log.replica import Replica
    from kompat.log.replica_core import ReplicaCore


class Host(Protocol):
    node_id: NodeId

    @property
    def directory(self) -> str:
        """The id of the data directory."""
        ...

    @property
    def lag_ms(self) -> int:
        """replica.lag.time.max.ms"""
        ...

    def now(self) -> Millis:
        """By a clock that nobody sets."""
        ...

    def wall_time(self) -> Millis: ...

    def is_up(self, node: NodeId) -> bool:
        """Whether there is a link to it."""
        ...

    def is_here(self, node: int) -> bool:
        """Whether it is this broker, or there is a link to it."""
        ...

    def open_group(self, replica: ReplicaCore, state: GroupState) -> RaftGroup: ...

    def wake(self, replica: ReplicaCore) -> None:
        """Have it pumped at the end of this turn."""
        ...

    def pump(self, replica: ReplicaCore) -> None:
        """Have it pumped now."""
        ...

    def send(self, replica: ReplicaCore, messages: Sequence[Message]) -> None: ...

    def fetch(self, replica: ReplicaCore, ready: Ready) -> None:
        """Read entries for followers that are far behind."""
        ...

    async def mend(self, replica: Replica, damage: DamagedBatch) -> None:
        """Have damaged batches replaced by those of another replica. Raises KafkaError."""
        ...

    def call_later(self, seconds: float, work: Callable[[], None]) -> None: ...

    def campaign_later(self, replica: ReplicaCore, place: int) -> None:
        """Have it campaign, after those with a lower place have had their chance."""
        ...

    def require_sync(self) -> None:
        """This turn's writes have to be on the disk, not only with the operating system."""
        ...

    def role_changed(self, replica: ReplicaCore) -> None: ...

    def members_changed(self, replica: ReplicaCore) -> None: ...
