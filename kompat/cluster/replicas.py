"""What the cluster asks of the replicas on this broker. `log.replication` keeps them; here is the part of it that is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kompat.log.partition import Partition
from kompat.types import LeaderEpoch, Millis, NodeId, Offset


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
