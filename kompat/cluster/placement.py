"""Places replicas: leaders in turn over the brokers, followers on other racks if there are any."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle, islice, starmap, zip_longest

from kompat.cluster.state import Broker, PartitionState
from kompat.errors import ErrorCode, KafkaError
from kompat.types import NodeId


def place_replicas(
    count: int, replication_factor: int, brokers: Mapping[NodeId, Broker], start: int, down: Collection[NodeId] = ()
) -> list[tuple[NodeId, ...]]:
    """Replicas of `count` partitions: leaders rotate over the brokers, from `start` on, followers come after them.

    Each rotation pairs other brokers. Brokers that are down get followers only, and only if there are too few others.
    """
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered.",
        )
    up = _racks_in_turn([broker for node, broker in sorted(brokers.items()) if node not in down])
    if not up:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
    spare = _racks_in_turn([broker for node, broker in sorted(brokers.items()) if node in down])
    rounds = max(1, len(up) - 1)  # until the pairs repeat
    found = [
        _rotation(up, spare, (start + index) % len(up), index // len(up), replication_factor)
        for index in range(min(count, len(up) * rounds))
    ]
    return list(islice(cycle(found), count))


def _racks_in_turn(brokers: Sequence[Broker]) -> list[Broker]:
    racks: dict[str | None, list[Broker]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker)
    return [broker for turn in zip_longest(*racks.values()) for broker in turn if broker is not None]


def _rotation(up: Sequence[Broker], spare: Sequence[Broker], first: int, shift: int, count: int) -> tuple[NodeId, ...]:
    others = [up[(first + step) % len(up)] for step in range(1, len(up))]
    chosen = [up[first]]
    left = [*others[shift:], *others[:shift]]
    for waiting in (left, list(spare)):
        while waiting and len(chosen) < count:
            taken = Counter(broker.rack for broker in chosen)
            best = min(waiting, key=lambda broker: taken[broker.rack])
            waiting.remove(best)
            chosen.append(best)
    return tuple(broker.node_id for broker in chosen)


def substitute(
    replicas: Sequence[NodeId],
    leaving: NodeId,
    brokers: Mapping[NodeId, Broker],
    able: Collection[NodeId],
    load: Mapping[NodeId, int],
) -> tuple[NodeId, ...] | None:
    """The replicas with one of the able brokers instead of the one that leaves: on a rack of its own if possible, then
    the one with the fewest replicas. None: there is no other."""
    racks = Counter(brokers[node].rack for node in replicas if node != leaving and node in brokers)
    others = [brokers[node] for node in able if node not in replicas]
    if not others:
        return None
    best = min(others, key=lambda broker: (racks[broker.rack], load.get(broker.node_id, 0), broker.node_id))
    return tuple(best.node_id if node == leaving else node for node in replicas)


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


def new_partitions(
    first: int, assigned: Sequence[tuple[NodeId, ...]], down: Collection[NodeId] = ()
) -> tuple[PartitionState, ...]:
    """Partitions from index `first` on; the first replica of each leads."""
    for step, replicas in enumerate(assigned if down else ()):
        if all(node in down for node in replicas):
            raise _invalid(
                f"All brokers specified in the manual partition assignment for partition {first + step} are fenced or in "
                "controlled shutdown."
            )
    return tuple(starmap(PartitionState, enumerate(assigned, first)))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
