"""Makes committed metadata true on this broker: its logs and its settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from kompat.config.broker import BrokerConfig
from kompat.config.topics import topic_config
from kompat.log.commit import Pending
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.types import LogId


class Host(Protocol):
    """Who looks after the other replicas of the partitions here, where there are other brokers."""

    def host(self, partition: Partition, wanted: PartitionState) -> None: ...

    def leave(self, partition: Partition) -> None: ...


class Hosting:
    def __init__(self, config: BrokerConfig, logs: Logs, host: Host | None = None) -> None:
        self._config = config
        self._logs = logs
        self._host = host

    def take_over(self, state: ClusterState) -> None:
        """Bring this broker to the state, wherever it was before."""
        self._change_settings(state)
        mine = self._config.node_id
        known = {
            LogId(topic.id, p.index) for topic in state.topics.values() for p in topic.partitions if mine in p.replicas
        }
        gone = [partition.log_id for partition in self._logs.all() if partition.log_id not in known]
        self._leave(gone)
        for log_id in gone:
            self._logs.drop(log_id)
        for topic in state.topics.values():
            self._open(topic)
        self._push_settings(state)

    async def drop_leftovers(self, keep: Collection[LogId]) -> None:
        """Remove what the store holds of topics that are gone: a crash came between their end and that of their data."""
        dropped: Pending | None = None
        for log in list(self._logs.stored()):
            if log not in keep and self._logs.find_by_id(log.topic_id, log.partition) is None:
                dropped = self._logs.drop(log)
        if dropped is not None:
            await dropped.wait()

    def follow(self, state: ClusterState, record: ClusterRecord) -> None:
        """Apply a record that has been committed, and do what it demands of this broker."""
        gone = state.topics_by_id.get(record.topic_id) if isinstance(record, TopicDeleted) else None
        record.change(state)
        if gone is not None:
            self._drop([LogId(gone.id, partition.index) for partition in gone.partitions])
        elif isinstance(record, TopicCreated):
            self._open(record.topic)
        elif isinstance(record, PartitionsCreated):
            self._open(state.topics_by_id[record.topic_id])
        elif isinstance(record, PartitionAssigned):
            topic = state.topics_by_id[record.topic_id]
            self._open(topic, [topic.partitions[record.index]])
            if self._config.node_id not in record.replicas:
                self._drop([LogId(record.topic_id, record.index)])
        elif isinstance(record, ConfigsSet):
            self._configure(state, record.resource)

    def _open(self, topic: Topic, partitions: Sequence[PartitionState] | None = None) -> None:
        """Logs that are open already stay as they are."""
        config = topic_config(topic.configs, self._config)
        node_id = self._config.node_id
        for partition in topic.partitions if partitions is None else partitions:
            if node_id in partition.replicas:
                log_id = LogId(topic.id, partition.index)
                log = self._logs.open(log_id, topic.name, partition.index, config, is_internal=topic.internal)
                if self._host is not None:
                    self._host.host(log, partition)

    def _drop(self, logs: Collection[LogId]) -> None:
        self._leave(logs)
        self._logs.drop_soon(log_id for log_id in logs if self._logs.find_by_id(log_id.topic_id, log_id.partition))

    def _leave(self, logs: Iterable[LogId]) -> None:
        for log_id in logs if self._host is not None else ():
            partition = self._logs.find_by_id(log_id.topic_id, log_id.partition)
            if partition is not None and self._host is not None:
                self._host.leave(partition)

    # -- settings --------------------------------------------------------------------------------------------------
    def _configure(self, state: ClusterState, resource: Resource) -> None:
        if resource.type is ResourceType.TOPIC:
            self._push(state.topics[resource.name])
        elif resource.type is ResourceType.BROKER and resource.name in ("", str(self._config.node_id)):
            self._change_settings(state)
            self._push_settings(state)

    def _change_settings(self, state: ClusterState) -> None:
        own = Resource(ResourceType.BROKER, str(self._config.node_id))
        cluster = state.configs.get(Resource(ResourceType.BROKER, ""), {})
        self._config.change(cluster=cluster, broker=state.configs.get(own, {}))

    def _push_settings(self, state: ClusterState) -> None:
        for topic in state.topics.values():
            self._push(topic)

    def _push(self, topic: Topic) -> None:
        config = topic_config(topic.configs, self._config)
        for partition in topic.partitions:
            log = self._logs.find_by_id(topic.id, partition.index)
            if log is not None:
                log.configure(config)
