"""What a broker of a cluster needs of the layers around it: links, replicas, metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kompat.cluster.state import ClusterState, PartitionState
from kompat.log.partition import Partition
from kompat.rpc.router import Transport
from kompat.types import Buffer, LeaderEpoch, LogId, Millis, NodeId, Offset

if TYPE_CHECKING:
    from kompat.raft.ports import RoleListener


class Progress(Protocol):
    """How far a replica has come, as its leader knows."""

    @property
    def log_end_offset(self) -> Offset: ...

    @property
    def last_caught_up(self) -> Millis: ...


class Replica(Protocol):
    @property
    def is_leading(self) -> bool:
        """Whether it leads, and serves."""
        ...

    @property
    def leader(self) -> NodeId | None: ...

    @property
    def epoch(self) -> LeaderEpoch: ...

    @property
    def voters(self) -> Sequence[NodeId]: ...

    @property
    def learners(self) -> Sequence[NodeId]: ...

    def in_sync(self) -> Sequence[NodeId]: ...

    def progress(self) -> Mapping[NodeId, Progress]: ...

    async def change_members(self, voters: Sequence[NodeId], learners: Sequence[NodeId] = ()) -> None: ...

    def campaign(self) -> None:
        """Try to become the leader, if a majority can do without the present one."""
        ...

    def transfer_leadership(self, to: NodeId) -> None: ...

    @property
    def is_in_doubt(self) -> bool:
        """Whether it does not vote or count, because its broker's data directory has lost what it promised."""
        ...

    def recover(self) -> None:
        """Go on with what is here: an operator accepts the loss of what is not."""
        ...


class Replication(Protocol):
    def start(self, listener: RoleListener, on_renewed: Callable[[str], None]) -> None: ...

    def peer_up(self, node: NodeId) -> None: ...

    def peer_lost(self, node: NodeId) -> None: ...

    def has_group(self, partition: Partition) -> bool:
        """Whether the partition has had other replicas already, or could have had."""
        ...

    def attach(self, partition: Partition, voters: Sequence[NodeId]) -> Replica: ...

    def detach(self, partition: Partition) -> None: ...

    # Since the start, for operators.
    @property
    def proposals(self) -> int: ...

    @property
    def leader_changes(self) -> int: ...

    @property
    def elections_won(self) -> int: ...

    @property
    def in_doubt(self) -> int:
        """Replicas that do not vote or count, because the data directory has lost what they promised."""
        ...

    def __len__(self) -> int:
        """The groups that there are."""
        ...


class Linking(Protocol):
    """The part of `raft.peers.Peers` by which links are kept."""

    def connect(self, node: NodeId, host: str, port: int) -> None: ...

    def forget(self, node: NodeId) -> None: ...

    def is_up(self, node: NodeId) -> bool: ...

    def is_gone(self, node: NodeId) -> bool: ...


class Links(Linking, Transport, Protocol):
    """The part of `raft.peers.Peers` that a broker uses."""

    cluster_id: str
    on_up: Callable[[NodeId], None]
    on_down: Callable[[NodeId], None]

    @property
    def on_call(self) -> dict[int, Callable[[NodeId, memoryview], Awaitable[Sequence[Buffer]]]]: ...


class Metadata(Protocol):
    """The cluster's metadata, as this broker has it: `cluster.service.ClusterService`."""

    @property
    def log(self) -> Partition: ...

    @property
    def image(self) -> ClusterState: ...

    @property
    def controller(self) -> NodeId | None: ...

    def require_room(self) -> None:
        """Raises KAFKA_STORAGE_ERROR while the disk takes no records. The metadata's own log is let in for longer."""
        ...

    def partition_state(self, log_id: LogId) -> PartitionState | None: ...
