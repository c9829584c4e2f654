"""Rules for reassigning partitions, pure: they decide from the state.

A partition that is being reassigned belongs to the old and the new brokers until its leader has reported the end. Cancelling
is a reassignment back: brokers may have become replicas already, and no broker drops what could be the only copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from uuid import UUID

from kompat.cluster import placement
from kompat.cluster.records import PartitionAssigned
from kompat.cluster.requests import Reassignment
from kompat.cluster.state import ClusterState, PartitionState, Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.types import NodeId


def plan_move(
    state: ClusterState, request: Reassignment, *, may_change_factor: bool = True
) -> PartitionAssigned | None:
    """The record that starts a reassignment; None: nothing changes."""
    topic, partition = _find(state, request)
    if request.replicas is None:
        if not partition.is_moving:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return _towards(topic, partition, partition.origin)
    wanted = placement.check_manual(request.replicas, state.brokers)
    if not may_change_factor and len(wanted) != len(partition.origin):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(partition.origin)} to {len(wanted)}",
        )
    return _towards(topic, partition, wanted)


def _find(state: ClusterState, request: Reassignment) -> tuple[Topic, PartitionState]:
    topic = state.topics.get(request.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {request.topic}.")
    if not 0 <= request.index < len(topic.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {request.topic}:{request.index}."
        )
    return topic, topic.partitions[request.index]


def _towards(topic: Topic, partition: PartitionState, target: tuple[NodeId, ...]) -> PartitionAssigned | None:
    removing = tuple(node for node in partition.replicas if node not in target)
    replicas = target + removing
    adding = tuple(node for node in replicas if node not in partition.origin)
    if (replicas, adding, removing) == (partition.replicas, partition.adding, partition.removing):
        return None
    return PartitionAssigned(topic.id, partition.index, replicas, adding, removing)


def plan_arrival(
    state: ClusterState, topic_id: UUID, index: int, members: Collection[NodeId]
) -> PartitionAssigned | None:
    """The record that ends a reassignment, if the partition now has the replicas of its target; else None."""
    topic = state.topics_by_id.get(topic_id)
    if topic is None or not 0 <= index < len(topic.partitions):
        return None
    partition = topic.partitions[index]
    if not partition.is_moving or set(members) != set(partition.target):
        return None
    return PartitionAssigned(topic_id, index, partition.target)


def unmovable(state: ClusterState, node: NodeId, down: Collection[NodeId]) -> list[tuple[str, int]]:
    """Partitions whose replica cannot leave the broker: every other available broker has a replica already."""
    able = {each for each in state.brokers if each != node and each not in state.leaving and each not in down}
    return [
        (topic.name, partition.index)
        for topic in state.topics.values()
        for partition in topic.partitions
        if node in partition.target and able <= set(partition.target)
    ]


def plan_drain(
    state: ClusterState, leaving: Collection[NodeId], down: Collection[NodeId]
) -> Iterator[PartitionAssigned]:
    """Reassignments that move all replicas away from the brokers that leave, as far as others can take them."""
    able = [node for node in state.brokers if node not in leaving and node not in down]
    load = Counter(node for topic in state.topics.values() for p in topic.partitions for node in p.target)
    for topic in state.topics.values():
        for partition in topic.partitions:
            target = partition.target
            for node in target:
                found = placement.substitute(target, node, state.brokers, able, load) if node in leaving else None
                if found is not None:
                    load.update(set(found) - set(target))
                    target = found
            moved = _towards(topic, partition, target)
            if target != partition.target and moved is not None:
                yield moved
