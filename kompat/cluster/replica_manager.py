"""Applies committed metadata to this broker's logs and configs, in steps between which other tasks may run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from kompat.cluster.records import (
    ClusterRecord,
    ConfigsSet,
    PartitionAssigned,
    PartitionsCreated,
    TopicCreated,
    TopicDeleted,
)
from kompat.cluster.state import ClusterState, PartitionState, Resource, ResourceType, Topic
from kompat.common.promise import Promise
from kompat.config.broker import BrokerConfig
from kompat.config.topics import topic_config
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.types import LogId


class Host(Protocol):
    """Manages the other replicas of this broker's partitions."""

    def host(self, partition: Partition, wanted: PartitionState) -> None: ...

    def leave(self, partition: Partition) -> None: ...


class ReplicaManager:
    def __init__(self, config: BrokerConfig, logs: Logs, host: Host) -> None:
        self._config = config
        self._logs = logs
        self._host = host

    def take_over(self, state: ClusterState) -> Iterator[None]:
        """Bring this broker to the state, from whichever it had before."""
        self._change_settings(state)
        mine = self._config.node_id
        known = {
            LogId(topic.id, p.index) for topic in state.topics.values() for p in topic.partitions if mine in p.replicas
        }
        for log_id in [partition.log_id for partition in self._logs.all() if partition.log_id not in known]:
            self._leave(log_id)
            self._logs.drop(log_id)
            yield
        for topic in list(state.topics.values()):
            yield from self._open(topic, topic.partitions)
        yield from self._push_settings(state)

    async def drop_leftovers(self, keep: Collection[LogId]) -> None:
        """Remove the data of deleted topics from the store: a crash may have come between the two."""
        dropped: Promise[None] | None = None
        for log in list(self._logs.stored()):
            if log not in keep and self._logs.find_by_id(log.topic_id, log.partition) is None:
                dropped = self._logs.drop(log)
        if dropped is not None:
            await dropped

    def follow(self, state: ClusterState, record: ClusterRecord) -> Iterator[None]:
        """Apply a committed record on this broker.

        Partitions in the state have open logs: new logs are opened before, and logs of deleted ones are dropped after.
        """
        if isinstance(record, TopicCreated):
            yield from self._open(record.topic, record.topic.partitions)
        elif isinstance(record, PartitionsCreated):
            yield from self._open(state.topics_by_id[record.topic_id], record.partitions)
        gone = state.topics_by_id.get(record.topic_id) if isinstance(record, TopicDeleted) else None
        record.change(state)
        if gone is not None:
            yield from self._drop(LogId(gone.id, partition.index) for partition in gone.partitions)
        elif isinstance(record, PartitionAssigned):
            topic = state.topics_by_id[record.topic_id]
            yield from self._open(topic, [topic.partitions[record.index]])
            if self._config.node_id not in record.replicas:
                yield from self._drop([LogId(record.topic_id, record.index)])
        elif isinstance(record, ConfigsSet):
            yield from self._configure(state, record.resource)

    def _open(self, topic: Topic, partitions: Iterable[PartitionState]) -> Iterator[None]:
        """Open logs stay as they are. Those of internal topics are opened at once: coordinators start as soon as they see the
        topic, and expect its logs."""
        config = topic_config(topic.configs, self._config)
        node_id, is_internal = self._config.node_id, topic.internal
        for partition in partitions:
            if node_id in partition.replicas:
                log_id = LogId(topic.id, partition.index)
                log = self._logs.open(log_id, topic.name, partition.index, config, is_internal=is_internal)
                self._host.host(log, partition)
                if not is_internal:
                    yield

    def _drop(self, logs: Iterable[LogId]) -> Iterator[None]:
        for log_id in logs:
            self._leave(log_id)
            if self._logs.find_by_id(log_id.topic_id, log_id.partition):
                self._logs.drop_soon([log_id])
            yield

    def _leave(self, log_id: LogId) -> None:
        partition = self._logs.find_by_id(log_id.topic_id, log_id.partition)
        if partition is not None:
            self._host.leave(partition)

    # -- settings --------------------------------------------------------------------------------------------------
    def _configure(self, state: ClusterState, resource: Resource) -> Iterator[None]:
        if resource.type is ResourceType.TOPIC:
            yield from self._push(state.topics[resource.name])
        elif resource.type is ResourceType.BROKER and resource.name in ("", str(self._config.node_id)):
            self._change_settings(state)
            yield from self._push_settings(state)

    def _change_settings(self, state: ClusterState) -> None:
        own = Resource(ResourceType.BROKER, str(self._config.node_id))
        cluster = state.configs.get(Resource(ResourceType.BROKER, ""), {})
        self._config.change(cluster=cluster, broker=state.configs.get(own, {}))

    def _push_settings(self, state: ClusterState) -> Iterator[None]:
        for topic in list(state.topics.values()):
            yield from self._push(topic)

    def _push(self, topic: Topic) -> Iterator[None]:
        config = topic_config(topic.configs, self._config)
        for partition in topic.partitions:
            log = self._logs.find_by_id(topic.id, partition.index)
            if log is not None:
                log.configure(config)
            yield
