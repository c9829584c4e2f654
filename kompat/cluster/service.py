"""The cluster's metadata: committed state can be read at once, changes are awaited.

Records of the metadata log (`metadata.py`) take effect here when they are committed: logs are opened and dropped, and configs
applied to partitions and broker. So a topic is only visible when a crash cannot remove it again. Changes run on the
controller: Kafka's APIs are forwarded (`Handler.is_for_controller`), the broker's own requests go by `rpc`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar
from uuid import UUID, uuid4

from kompat.clock import Clock
from kompat.cluster import names
from kompat.cluster.changes import Changes, changes_of
from kompat.cluster.controller import Controller
from kompat.cluster.directory import ClusterDirectory
from kompat.cluster.internal import internal_topic
from kompat.cluster.local_broker import BrokerParts, LocalBroker
from kompat.cluster.machine import ClusterMachine
from kompat.cluster.messages import CreateMissingTopics, ReadMetadataEnd
from kompat.cluster.metadata import CATCH_UP, METADATA_LOG, MetadataLog
from kompat.cluster.producer_ids import ProducerIds
from kompat.cluster.records import BrokerUnregistered, ClusterRecord, PartitionAssigned, TopicDeleted
from kompat.cluster.replica_manager import ReplicaManager
from kompat.cluster.requests import ConfigChange, ConfigReplacement, MorePartitions, NewTopic, Reassignment
from kompat.cluster.settings import SettingsView
from kompat.cluster.standalone import standalone
from kompat.cluster.state import Broker, ClusterState, PartitionState, Topic
from kompat.common.slices import sliced
from kompat.config.broker import BrokerConfig
from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.rpc.messages import CONTROLLER
from kompat.rpc.router import Router
from kompat.types import LeaderEpoch, LogId, NodeId, Offset, ProducerId, TopicPartition

logger = logging.getLogger(__name__)

__all__ = ["METADATA_LOG", "ClusterService", "PartitionState", "Topic"]

_LED_WITHIN = 2.0

T = TypeVar("T")


class ClusterService(SettingsView):
    def __init__(self, config: BrokerConfig, clock: Clock, logs: Logs, parts: BrokerParts | None = None) -> None:
        """`parts`: the networking of this broker."""
        super().__init__(config)
        parts = parts or standalone(config)
        self._logs = logs
        self._metadata = MetadataLog(clock, logs, self)
        self._published = Offset(0)  # the offset up to which the image is applied
        self.rpc = Router(parts.broker.node_id, ClusterDirectory(self, logs), parts.links)
        self._controller = Controller(self)
        self.local = LocalBroker(parts, self, self.rpc, self)
        self._replicas = ReplicaManager(config, logs, self.local)
        self._producer_ids = ProducerIds(self.rpc)
        self._watchers: list[Callable[[Changes], None]] = []
        self._tidying: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the metadata, and join the cluster."""
        await self.local.start()
        await self._metadata.start()
        await self.local.join()
        self._tidying = asyncio.ensure_future(self._tidy())
        if not self.local.has_peers:  # there are no other brokers to wait for
            await asyncio.gather(self._tidying, self.mend_internal_topics())

    async def _tidy(self) -> None:
        """Remove the data of unknown topics, but only after all committed metadata was read."""
        while True:
            with contextlib.suppress(KafkaError):
                if await self.reach(Offset(await self.rpc.call(CONTROLLER, ReadMetadataEnd())), CATCH_UP):
                    break
        if not self._metadata.has_skipped:  # else what was skipped may be of an existing topic
            await self._replicas.drop_leftovers({METADATA_LOG})

    async def close(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.gather(self._tidying, return_exceptions=True)
        await self._controller.close()
        await self.local.close()
        await self._metadata.close()

    # -- applying the metadata log --------------------------------------------------------------------------------
    def take_over(self, image: ClusterState, end: Offset) -> Iterator[None]:
        self.image, self._published = image, end
        yield from self._replicas.take_over(image)
        moving = [LogId(t.id, p.index) for t in image.topics.values() for p in t.partitions if p.is_moving]
        self._look_around(moved=moving)
        self._notify_watchers(Changes([], [], [], quotas=True))

    def follow(self, records: Sequence[ClusterRecord], end: Offset) -> Iterator[None]:
        changes = changes_of(records, self.image)
        try:
            for record in records:
                deleted = self.image.topics_by_id.get(record.topic_id) if isinstance(record, TopicDeleted) else None
                yield from self._replicas.follow(self.image, record)
                if deleted is not None:
                    yield from self._forget_leaders(deleted)
        finally:
            self._published = end
        self._look_around(
            gone=[record.node_id for record in records if isinstance(record, BrokerUnregistered)],
            moved=[LogId(r.topic_id, r.index) for r in records if isinstance(r, PartitionAssigned)],
        )
        if changes:
            self._notify_watchers(changes)

    def _forget_leaders(self, topic: Topic) -> Iterator[None]:
        for partition in topic.partitions:
            self.local.leaders.forget(LogId(topic.id, partition.index))
            yield

    def _look_around(self, gone: Sequence[NodeId] = (), moved: Sequence[LogId] = ()) -> None:
        self.local.changed(gone, moved)
        self._controller.look()

    def _notify_watchers(self, changes: Changes) -> None:
        for watcher in self._watchers:
            watcher(changes)

    async def run(self, command: Callable[[ClusterMachine], Decision[ClusterRecord, T]]) -> T:
        """Run a command; the reply comes when its effect is visible on this broker."""
        return await self._metadata.run(command)

    def watch(self, watcher: Callable[[Changes], None]) -> None:
        """Call the watcher with committed changes of topics, groups and quotas."""
        self._watchers.append(watcher)

    # -- looking up ------------------------------------------------------------------------------------------------
    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    @property
    def brokers(self) -> Mapping[NodeId, Broker]:
        return self.image.brokers

    @property
    def metadata_offset(self) -> Offset:
        """The offset of the last committed metadata record: increases with every change."""
        return Offset(self._published - 1)

    def partition_state(self, log_id: LogId) -> PartitionState | None:
        topic = self.image.topics_by_id.get(log_id.topic_id)
        known = topic is not None and log_id.partition < len(topic.partitions)
        return topic.partitions[log_id.partition] if topic is not None and known else None

    def has_partition(self, partition: TopicPartition) -> bool:
        """Whether the partition exists, on whichever broker."""
        topic = self.topic(partition.topic)
        return topic is not None and 0 <= partition.partition < len(topic.partitions)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self.image.topics_by_id.get(topic_id)

    def topics(self) -> Collection[Topic]:
        return self.image.topics.values()

    def require_room(self) -> None:
        self._logs.require_room()

    # -- topics ----------------------------------------------------------------------------------------------------
    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False, by_owner: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Each is created or refused on its own. With `validate_only` the topics that would be created. `by_owner`: internal
        topics may be among them."""
        self.require_room()
        ided = [(new, uuid4()) for new in wanted]
        start = random.randrange(1 << 16)  # noqa: S311 - only spreads load
        outcomes = await self.run(
            lambda machine: machine.create_topics(
                ided,
                start=start,
                config=self._config,
                down=self._down,
                validate_only=validate_only,
                by_owner=by_owner,
            )
        )
        if not validate_only:
            await self.until_led([topic.name for topic in outcomes.values() if isinstance(topic, Topic)])
        return outcomes

    async def auto_create(self, wanted: Iterable[str]) -> dict[str, KafkaError]:
        """Create the topics that do not exist; returns the errors of those that cannot be. Internal ones are created by their owners."""
        wanted = list(wanted)
        absent = [name for name in wanted if names.is_internal(name) and name not in self.image.topics]
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The broker makes its internal topics itself.")
        refused = await self._make_missing(name for name in wanted if name not in absent)
        return {**refused, **dict.fromkeys(absent, unknown)}

    async def _make_missing(self, wanted: Iterable[str]) -> dict[str, KafkaError]:
        missing = tuple(name for name in dict.fromkeys(wanted) if name not in self.image.topics)
        if not missing:
            return {}
        refused = await self.rpc.call(CONTROLLER, CreateMissingTopics(missing))
        await self.until_led([name for name in missing if name not in refused])
        return refused

    async def create_with_defaults(self, wanted: Iterable[str]) -> dict[str, KafkaError]:
        """On the controller: returns the errors of those that cannot be created."""
        new = [self._default_topic(name) for name in wanted if name not in self.image.topics]
        outcomes = await self.create_topics(new, by_owner=True) if new else {}
        return {
            name: outcome
            for name, outcome in outcomes.items()
            if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    def _default_topic(self, name: str) -> NewTopic:
        if name in names.INTERNAL:
            return internal_topic(name, self._config, len(self.image.brokers))
        return NewTopic(name)

    async def ensure_internal_topic(self, name: str) -> Topic:
        """The internal topic, created if it does not exist."""
        known = self.topic(name)
        if known is not None:
            return known
        refused = (await self._make_missing([name])).get(name)
        if refused is not None:
            raise refused
        known = self.topic(name)
        if known is None:  # another broker has created it, and a client has deleted it again
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return known

    async def delete_topics(self, wanted: Sequence[str | UUID]) -> dict[str | UUID, Topic | KafkaError]:
        """By name or by id; each is deleted or refused on its own."""
        return await self.run(lambda machine: machine.delete_topics(wanted, config=self._config))

    async def create_partitions(
        self, wanted: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        self.require_room()
        start = random.randrange(1 << 16)  # noqa: S311 - only spreads load
        return await self.run(
            lambda machine: machine.create_partitions(wanted, start=start, down=self._down, validate_only=validate_only)
        )

    async def reassign(
        self, wanted: Sequence[Reassignment], *, may_change_factor: bool = True
    ) -> list[KafkaError | None]:
        """Reassign partitions, each on its own; outcomes are in the order of the request."""
        return await self.run(lambda machine: machine.reassign(wanted, may_change_factor=may_change_factor))

    # -- brokers ---------------------------------------------------------------------------------------------------
    @property
    def controller(self) -> NodeId | None:
        """The controller, as far as this broker knows."""
        replica = self.local.leadership.replica(METADATA_LOG)
        known = replica.leader if replica is not None else None
        return known or self.local.leader(METADATA_LOG) or self.local.registration.reported_controller

    @property
    def network_stamp(self) -> object:
        """Changes when clients' metadata of leaders and brokers does."""
        return self.local.network.stamp

    @property
    def log(self) -> Partition:
        return self._metadata.log

    @property
    def is_controller(self) -> bool:
        return self._metadata.is_controller

    @property
    def end(self) -> Offset:
        return self.log.high_watermark

    async def reach(self, offset: Offset, seconds: float) -> bool:
        """Wait until this broker has all metadata before an offset; returns whether it did so in time."""
        return await self._metadata.reach(offset, seconds)

    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        if partition is self.log:
            self._metadata.lead()
            self._controller.lead()

    def following(self, partition: Partition) -> None:
        if partition is self.log:
            self._metadata.resign()
            self._controller.resign()

    async def until_led(self, names: Collection[str], seconds: float = _LED_WITHIN) -> None:
        """Wait a little for new topics to have leaders: a client that creates a topic will use it."""
        topics = [topic for topic in map(self.topic, names) if topic is not None]
        all_of_them = (LogId(topic.id, p.index) for topic in topics for p in topic.partitions)
        left = [log_id async for log_id in sliced(all_of_them) if self.local.leader(log_id) is None]
        await self.local.network.until(lambda: self._are_led(left), seconds)

    def _are_led(self, left: list[LogId]) -> bool:
        """Whether all have a leader. Those that had one are removed from the list, since there may be thousands."""
        while left and self.local.leader(left[-1]) is not None:
            left.pop()
        return not left

    @property
    def _down(self) -> Collection[NodeId]:
        return self.local.leaders.down

    async def drain(self) -> None:
        """Reassign the replicas of brokers that are being drained."""
        leaving = self.image.leaving
        if leaving:
            await self.run(lambda machine: machine.drain(leaving, self._down))

    async def mend_internal_topics(self) -> None:
        for name in await self.run(lambda machine: machine.mend_internal_topics(config=self._config)):
            logger.warning("settings of internal topic %s were wrong, and are mended", name)

    async def unregister(self, node_id: NodeId) -> None:
        if not self.local.has_peers and node_id in self.brokers:  # it would not register again, unlike one of several
            raise KafkaError(ErrorCode.INVALID_REQUEST, "This broker is alone: who would be there without it?")
        await self.run(lambda machine: machine.unregister(node_id))

    # -- settings --------------------------------------------------------------------------------------------------
    async def alter_configs(
        self, wanted: Sequence[ConfigChange | ConfigReplacement], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Change or replace configs of resources, each on its own; outcomes are in the order of the request."""
        return await self.run(
            lambda machine: machine.alter_configs(wanted, config=self._config, validate_only=validate_only)
        )

    # -- producer ids ----------------------------------------------------------------------------------------------
    async def next_producer_id(self) -> ProducerId:
        """An unused producer id."""
        return await self._producer_ids.next()
