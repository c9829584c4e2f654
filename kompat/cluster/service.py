"""The cluster's metadata, for everybody: what is committed can be looked up at once, changes are awaited.

The machine runs on a partition of its own. Its records take effect here when they are committed: logs are opened and
dropped, new settings reach partitions and broker. So nobody sees a topic that a crash could take away again.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from uuid import UUID, uuid4

from kompat.clock import Clock
from kompat.cluster import configs, describe, names
from kompat.cluster.changes import Changes, changes_of
from kompat.cluster.describe import ConfigEntry
from kompat.cluster.hosting import Hosting
from kompat.cluster.internal import internal_topic
from kompat.cluster.machine import ClusterMachine
from kompat.cluster.records import ClusterCodec, ClusterRecord
from kompat.cluster.requests import ConfigChange, ConfigReplacement, MorePartitions, NewTopic
from kompat.cluster.state import Broker, ClusterState, PartitionState, Resource, ResourceType, Topic
from kompat.config.broker import BrokerConfig
from kompat.config.groups import group_value
from kompat.config.topic import TopicConfig
from kompat.config.values import Value
from kompat.coordination.runtime import Runtime
from kompat.errors import ErrorCode, KafkaError
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.types import LogId, NodeId, Offset, ProducerId

__all__ = ["ClusterService", "PartitionState", "Topic"]

METADATA_LOG = LogId(UUID(int=1), 0)
_METADATA_CONFIG = TopicConfig(
    retention_ms=-1, segment_bytes=1 << 30, segment_ms=24 * 3_600_000, max_message_bytes=(1 << 31) - 1
)


class ClusterService:
    def __init__(self, config: BrokerConfig, clock: Clock, logs: Logs) -> None:
        self._config = config
        self._logs = logs
        self._hosting = Hosting(config, logs)
        self.log: Partition = logs.open_private(METADATA_LOG, names.CLUSTER_METADATA, 0, _METADATA_CONFIG)
        self._image = ClusterState()  # what is committed; the machine is ahead of it
        self._runtime: Runtime[ClusterMachine, ClusterRecord] = Runtime(
            ClusterMachine, ClusterCodec(), self.log, clock=clock, store=self.log.store, listener=self
        )
        self._default_entries: tuple[int, list[ConfigEntry]] = (-1, [])
        self._producer_ids = iter(range(0))
        self._watchers: list[Callable[[Changes], None]] = []
        self._allocating: asyncio.Future[range] | None = None

    async def start(self) -> None:
        """Take up the cluster where it stood, and join it."""
        await self._runtime.load()
        await self._hosting.drop_leftovers({METADATA_LOG})
        broker = Broker(NodeId(self._config.node_id), self._config["broker.rack"])
        await self._runtime.run(lambda machine: machine.join(broker, cluster_id=_new_cluster_id()))

    async def close(self) -> None:
        await self._runtime.close()

    # -- what the runtime tells ------------------------------------------------------------------------------------
    def loaded(self) -> None:
        self._image = self._runtime.machine.state.copy()
        self._hosting.take_over(self._image)

    def committed(self, records: Sequence[ClusterRecord]) -> None:
        changes = changes_of(records, self._image)
        for record in records:
            self._hosting.follow(self._image, record)
        if changes:
            for watcher in self._watchers:
                watcher(changes)

    def watch(self, watcher: Callable[[Changes], None]) -> None:
        """Be told of topics and groups that changed, when that is committed."""
        self._watchers.append(watcher)

    # -- looking up ------------------------------------------------------------------------------------------------
    @property
    def cluster_id(self) -> str:
        return self._image.cluster_id

    @property
    def brokers(self) -> Mapping[NodeId, Broker]:
        return self._image.brokers

    @property
    def metadata_offset(self) -> Offset:
        """Of the newest committed metadata record: moves with every change."""
        return Offset(self._runtime.committed_offset - 1)

    def topic(self, name: str) -> Topic | None:
        return self._image.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._image.topics_by_id.get(topic_id)

    def topics(self) -> Collection[Topic]:
        return self._image.topics.values()

    # -- topics ----------------------------------------------------------------------------------------------------
    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Topic | KafkaError]:
        """Each is created or refused on its own. With `validate_only` the topics that would be created."""
        self._logs.require_room()
        ided = [(new, uuid4()) for new in wanted]
        start = random.randrange(1 << 16)  # noqa: S311 - only spreads load
        return await self._runtime.run(
            lambda machine: machine.create_topics(ided, start=start, config=self._config, validate_only=validate_only)
        )

    async def auto_create(self, wanted: Iterable[str]) -> dict[str, KafkaError]:
        """Create the topics that do not exist; those that cannot be created, and why."""
        missing = [name for name in dict.fromkeys(wanted) if name not in self._image.topics]
        outcomes = await self.create_topics([self._default_topic(name) for name in missing]) if missing else {}
        return {
            name: outcome
            for name, outcome in outcomes.items()
            if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    def _default_topic(self, name: str) -> NewTopic:
        if names.is_internal(name):
            return internal_topic(name, self._config, len(self._image.brokers))
        return NewTopic(name)

    async def ensure_internal_topic(self, name: str) -> Topic:
        """The internal topic, created if this is the first that is heard of it."""
        known = self.topic(name)
        if known is not None:
            return known
        outcome = (await self.create_topics([self._default_topic(name)]))[name]
        if isinstance(outcome, Topic):
            return outcome
        known = self.topic(name)  # somebody else was faster
        if known is None or outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome
        return known

    async def delete_topics(self, wanted: Sequence[str | UUID]) -> dict[str | UUID, Topic | KafkaError]:
        """By name or by id; each is deleted or refused on its own."""
        return await self._runtime.run(lambda machine: machine.delete_topics(wanted, config=self._config))

    async def create_partitions(
        self, wanted: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        self._logs.require_room()
        start = random.randrange(1 << 16)  # noqa: S311 - only spreads load
        return await self._runtime.run(
            lambda machine: machine.create_partitions(wanted, start=start, validate_only=validate_only)
        )

    # -- settings --------------------------------------------------------------------------------------------------
    async def alter_configs(
        self, wanted: Sequence[ConfigChange | ConfigReplacement], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Change or replace settings of resources, each on its own; outcomes in the order asked."""
        return await self._runtime.run(
            lambda machine: machine.alter_configs(wanted, config=self._config, validate_only=validate_only)
        )

    def describe_configs(self, resource: Resource) -> list[ConfigEntry]:
        """All settings of a resource, in force, with where they come from. KafkaError where there is no such resource."""
        if resource.type is ResourceType.TOPIC:
            return self.describe_topic_configs(resource.name)
        if resource.type is ResourceType.BROKER:
            return self._describe_broker(resource.name)
        if resource.type is ResourceType.GROUP:
            _need(resource.name, "Group name must not be empty")
            return describe.group_entries(configs.overrides(self._image, resource), self._config)
        if resource.type is ResourceType.CLIENT_METRICS:
            _need(resource.name, "Client metrics subscription name must not be empty")
            return describe.metrics_entries(configs.overrides(self._image, resource))
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Levels of loggers are not offered.")

    def describe_topic_configs(self, name: str) -> list[ConfigEntry]:
        wrong = names.invalid_name(name)
        if wrong is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
        topic = self.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.describe_configs_of(topic)

    def describe_configs_of(self, topic: Topic) -> list[ConfigEntry]:
        """Also of a topic that does not exist: one that was only validated. Topics without settings share one list."""
        if topic.configs:
            return describe.topic_entries(topic.configs, self._config)
        version, entries = self._default_entries
        if version != self._config.version:
            entries = describe.topic_entries({}, self._config)
            self._default_entries = (self._config.version, entries)
        return entries

    def _describe_broker(self, name: str) -> list[ConfigEntry]:
        if not name:
            return describe.cluster_entries(configs.overrides(self._image, Resource(ResourceType.BROKER, "")))
        if not (name.isascii() and name.isdigit()):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        node_id = self._config.node_id
        if int(name) != node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
            )
        return describe.broker_entries(self._config)

    def config_resources(self, types: Collection[ResourceType]) -> list[Resource]:
        """The resources of these types that have settings; topics and brokers always do."""
        found = [Resource(ResourceType.TOPIC, name) for name in self._image.topics]
        found += [Resource(ResourceType.BROKER, str(node)) for node in self._image.brokers]
        found += [each for each in self._image.configs if each.type is not ResourceType.BROKER]
        return [each for each in found if each.type in types]

    def groups_with_settings(self) -> list[str]:
        return [each.name for each in self._image.configs if each.type is ResourceType.GROUP]

    def group_setting(self, group_id: str, name: str) -> Value:
        """A group's setting in force: its own, or the broker's default."""
        own = self._image.configs.get(Resource(ResourceType.GROUP, group_id), {})
        return group_value(name, own, self._config)

    def has_group_setting(self, group_id: str, name: str) -> bool:
        """Has somebody said what it is to be for this group?"""
        return name in self._image.configs.get(Resource(ResourceType.GROUP, group_id), {})

    # -- producer ids ----------------------------------------------------------------------------------------------
    async def next_producer_id(self) -> ProducerId:
        """One that was never given before. Blocks of them are taken, so that few of these calls write anything."""
        while (found := next(self._producer_ids, None)) is None:
            if self._allocating is None:
                allocation = self._runtime.run(lambda machine: machine.allocate_producer_ids())
                self._allocating = asyncio.ensure_future(allocation)
                self._allocating.add_done_callback(self._allocated)
            await asyncio.shield(self._allocating)
        return ProducerId(found)

    def _allocated(self, done: asyncio.Future[range]) -> None:
        self._allocating = None
        if not done.cancelled() and done.exception() is None:
            self._producer_ids = iter(done.result())


def _need(name: str, message: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _new_cluster_id() -> str:
    """As Kafka writes ids: 22 characters, none of which a command line takes for a flag."""
    while True:
        found = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found
