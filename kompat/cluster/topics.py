"""Rules for creating topics and adding partitions, pure: they decide from the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from uuid import UUID

from kompat.cluster import names, placement, queue_rules
from kompat.cluster.requests import DEFAULT, MorePartitions, NewTopic
from kompat.cluster.state import Broker, ClusterState, PartitionState, Topic
from kompat.config.broker import BrokerConfig
from kompat.config.topics import validate_topic_config
from kompat.errors import ErrorCode, KafkaError
from kompat.types import NodeId

MAX_PARTITIONS_PER_REQUEST = 10_000  # as Kafka's: one request must not occupy the controller for long


def plan_topic(
    state: ClusterState,
    new: NewTopic,
    topic_id: UUID,
    *,
    start: int,
    config: BrokerConfig,
    taken: Collection[str] = (),
    down: Collection[NodeId] = (),
    by_owner: bool = False,
) -> Topic:
    """The new topic. `taken`: the names of other topics in the same request. `by_owner`: the broker creates an internal
    topic."""
    _check_name(state, new.name, taken, by_owner=by_owner)
    configs = plan_configs(new.configs, config)
    queue_rules.check_new(state, new.name, configs)
    assigned = _assign(state, new, start=start, config=config, down=down)
    return Topic(new.name, topic_id, placement.new_partitions(0, assigned, down), configs)


def _check_name(state: ClusterState, name: str, taken: Collection[str], *, by_owner: bool) -> None:
    wrong = names.invalid_name(name)
    if wrong is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    if name in state.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if names.is_internal(name) and not (by_owner and name in names.INTERNAL):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if by_owner and name in names.INTERNAL:
        return  # even if a client has created a topic with a colliding name: coordinators have to work
    key = names.folded(name)
    alike = state.colliding(name)
    alike |= {other for other in (*taken, *names.INTERNAL) if key is not None and names.folded(other) == key}
    if alike:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, names.collision(name, alike))


def plan_configs(given: Mapping[str, str | None], config: BrokerConfig) -> dict[str, str]:
    missing = sorted(name for name, value in given.items() if value is None)
    if missing:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}")
    found = queue_rules.with_defaults({name: value for name, value in given.items() if value is not None})
    validate_topic_config(found, config)
    return found


def _assign(
    state: ClusterState, new: NewTopic, *, start: int, config: BrokerConfig, down: Collection[NodeId]
) -> list[tuple[NodeId, ...]]:
    if new.assignments:
        return _manual(state, new)
    factor = (
        config.integer("default.replication.factor") if new.replication_factor == DEFAULT else new.replication_factor
    )
    if factor < 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    count = config.integer("num.partitions") if new.num_partitions == DEFAULT else new.num_partitions
    if count < 1:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    return placement.place_replicas(count, factor, _places(state), start, down)


def _manual(state: ClusterState, new: NewTopic) -> list[tuple[NodeId, ...]]:
    for value, what in ((new.replication_factor, "replication factor"), (new.num_partitions, "numPartitions")):
        if value != DEFAULT:
            message = f"A manual partition assignment was specified, but {what} was not set to -1."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    found: dict[int, tuple[NodeId, ...]] = {}
    checked = cache(lambda replicas: placement.check_manual(replicas, state.brokers))
    for index, replicas in new.assignments:
        if index in found:
            raise _bad_assignment(f"Found multiple manual partition assignments for partition {index}")
        found[index] = checked(tuple(replicas))
    if sorted(found) != list(range(len(found))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    assigned = [found[index] for index in range(len(found))]
    placement.check_same_factor(assigned, len(assigned[0]))
    return assigned


def plan_partitions(
    state: ClusterState, topic: Topic, more: MorePartitions, *, start: int, down: Collection[NodeId] = ()
) -> tuple[PartitionState, ...]:
    """The partitions to add to a topic."""
    now = len(topic.partitions)
    if topic.internal:  # keys are assigned by the number of partitions: their state would not be found again
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"The number of partitions of internal topic {topic.name} cannot be changed."
        )
    added = more.count - now
    if added == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if added < 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {now} partition(s); {more.count} would not be an increase.",
        )
    if added > MAX_PARTITIONS_PER_REQUEST:
        raise too_many()
    if more.assignments is None:
        found = placement.place_replicas(added, topic.replication_factor, _places(state), start, down)
        return placement.new_partitions(now, found)
    if len(more.assignments) != added:
        raise _bad_assignment(
            f"Attempted to add {added} additional partition(s), but only {len(more.assignments)} assignment(s) "
            "were specified."
        )
    checked = cache(lambda replicas: placement.check_manual(replicas, state.brokers))
    assigned = [checked(tuple(replicas)) for replicas in more.assignments]
    placement.check_same_factor(assigned, topic.replication_factor)
    return placement.new_partitions(now, assigned, down)


def _places(state: ClusterState) -> Mapping[NodeId, Broker]:
    """The brokers that new replicas may go to: not those that are being drained."""
    leaving = state.leaving
    return {node: broker for node, broker in state.brokers.items() if node not in leaving} if leaving else state.brokers


def requested_partitions(new: NewTopic, config: BrokerConfig) -> int:
    if new.assignments:
        return len(new.assignments)
    return config.integer("num.partitions") if new.num_partitions == DEFAULT else max(0, new.num_partitions)


def too_many() -> KafkaError:
    return KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
