"""Where replicas go."""

from collections.abc import Collection, Mapping, Sequence

from kompat.cluster.state import Broker, PartitionState
from kompat.errors import ErrorCode, KafkaError
from kompat.types import LeaderEpoch, NodeId


def spread(
    count: int, replication_factor: int, brokers: Mapping[NodeId, Broker], start: int
) -> list[tuple[NodeId, ...]]:
    """Replicas of `count` partitions: leaders take turns over the brokers, from `start` on, followers come after them."""
    nodes = sorted(brokers)
    if replication_factor > len(nodes):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(nodes)} broker(s) are registered.",
        )
    # One tuple per rotation, shared by all partitions that have it.
    rotations = [
        tuple(nodes[(first + step) % len(nodes)] for step in range(replication_factor)) for first in range(len(nodes))
    ]
    return [rotations[(start + index) % len(nodes)] for index in range(count)]


def check_manual(replicas: Sequence[int], brokers: Collection[NodeId]) -> tuple[NodeId, ...]:
    """The replicas of one partition as an operator chose them."""
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    for node in sorted(replicas):
        if node not in brokers:
            raise _invalid(f"The manual partition assignment includes broker {node}, but no such broker is registered.")
        if replicas.count(node) > 1:
            raise _invalid(f"The manual partition assignment includes the broker {node} more than once.")
    return tuple(NodeId(node) for node in replicas)


def check_same_factor(found: Sequence[tuple[NodeId, ...]], factor: int) -> None:
    for replicas in found:
        if len(replicas) != factor:
            raise _invalid(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
                f"consistent with previous partitions, which have {factor} replica(s)."
            )


def new_partitions(first: int, assigned: Sequence[tuple[NodeId, ...]]) -> tuple[PartitionState, ...]:
    """Partitions from index `first` on; the first replica of each leads."""
    return tuple(
        PartitionState(first + step, replicas[0], LeaderEpoch(0), replicas, replicas)
        for step, replicas in enumerate(assigned)
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
