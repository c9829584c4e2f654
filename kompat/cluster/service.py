"""The cluster's metadata, for everybody: what is committed can be looked up at once, changes are awaited.

The machine runs on a partition of its own. Its records take effect here when they are committed: logs are opened and
dropped, new settings reach partitions and broker. So nobody sees a topic that a crash could take away again.

In a cluster that log has replicas. Its leader is the controller: there the machine runs, and what changes something has to
be asked of it. What is committed is read from the log by every broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from kompat.clock import Clock
from kompat.cluster import names
from kompat.cluster.changes import Changes, changes_of
from kompat.cluster.hosting import Hosting
from kompat.cluster.identity import new_cluster_id
from kompat.cluster.internal import internal_topic
from kompat.cluster.machine import ClusterMachine
from kompat.cluster.records import BrokerUnregistered, ClusterCodec, ClusterRecord, PartitionAssigned, TopicDeleted
from kompat.cluster.requests import ConfigChange, ConfigReplacement, MorePartitions, NewTopic, Reassignment
from kompat.cluster.settings import SettingsView
from kompat.cluster.state import Broker, PartitionState, Topic
from kompat.config.broker import BrokerConfig
from kompat.config.topic import TopicConfig
from kompat.coordination.decision import Decision
from kompat.coordination.following import Following
from kompat.coordination.runtime import Runtime
from kompat.errors import ErrorCode, KafkaError
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.types import LeaderEpoch, LogId, NodeId, Offset, ProducerId, TopicPartition

if TYPE_CHECKING:
    from kompat.cluster.member import Member

logger = logging.getLogger(__name__)

__all__ = ["ClusterService", "PartitionState", "Topic"]

METADATA_LOG = LogId(UUID(int=1), 0)
_METADATA_CONFIG = TopicConfig(
    retention_ms=-1, segment_bytes=1 << 30, segment_ms=24 * 3_600_000, max_message_bytes=(1 << 31) - 1
)

# What clients are told where the controller's log fails: to look for the controller, and to come again.
FAILURES = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.NOT_CONTROLLER,
}
_CATCH_UP = 5.0  # seconds that what is committed may take to be read here
_LED_WITHIN = 2.0

T = TypeVar("T")


class ClusterService(SettingsView):
    def __init__(self, config: BrokerConfig, clock: Clock, logs: Logs, member: Member | None = None) -> None:
        """`member`: of a cluster of several brokers."""
        super().__init__(config)
        self._logs = logs
        self._hosting = Hosting(config, logs, member)
        self.log: Partition = logs.open_private(METADATA_LOG, names.CLUSTER_METADATA, 0, _METADATA_CONFIG)
        is_alone = member is None
        self._runtime: Runtime[ClusterMachine, ClusterRecord] = Runtime(
            ClusterMachine,
            ClusterCodec(),
            self.log,
            clock=clock,
            store=self.log.store,
            listener=self if is_alone else None,
            failures=None if is_alone else FAILURES,
            is_leading=is_alone,
        )
        self._following: Following[ClusterMachine, ClusterRecord] | None = None
        if not is_alone:
            self._following = Following(ClusterMachine, ClusterCodec(), self.log, self)
        self.member = member
        self._tidying: asyncio.Task[None] | None = None
        self._mending: asyncio.Task[None] | None = None
        self._producer_ids = iter(range(0))
        self._watchers: list[Callable[[Changes], None]] = []
        self._allocating: asyncio.Task[None] | None = None
        if member is not None:
            member.bind(self)
            member.controller.commands(
                {
                    "join": self._join,
                    "arrived": self._arrived,
                    "create": self._create,
                    "producer-ids": self._allocate,
                    "end": self._end,
                }
            )

    async def start(self) -> None:
        """Take up the cluster where it stood, and join it."""
        if self.member is not None and self._following is not None:
            await self.member.start()
            await self._following.start()
            await self.member.join()
            self._tidying = asyncio.ensure_future(self._tidy(self.member))
            return
        await self._runtime.load()
        if not self._runtime.skipped.count:  # else what was skipped may be of a topic that is there
            await self._hosting.drop_leftovers({METADATA_LOG})
        broker = Broker(NodeId(self._config.node_id), self._config["broker.rack"])
        await self._runtime.run(lambda machine: machine.join(broker, cluster_id=new_cluster_id()))
        await self._mend()

    async def _mend(self) -> None:
        for name in await self._runtime.run(lambda machine: machine.mend_internal_topics()):
            logger.warning("settings of internal topic %s were wrong, and are mended", name)

    async def _tidy(self, member: Member) -> None:
        """Only when all is known that was decided may what nobody knows of be removed."""
        while True:
            with contextlib.suppress(KafkaError):
                if await self.reach(Offset(await member.controller.ask("end")), _CATCH_UP):
                    break
        if self._following is not None and not self._following.skipped.count:
            await self._hosting.drop_leftovers({METADATA_LOG})

    async def close(self) -> None:
        for task in (self._tidying, self._mending):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self.member is not None:
            await self.member.close()
        if self._following is not None:
            await self._following.close()
        with contextlib.suppress(TimeoutError):  # what nobody else has may never be committed
            await asyncio.wait_for(self._runtime.close(), _CATCH_UP)

    # -- what the runtime tells, or the log ------------------------------------------------------------------------
    def loaded(self) -> None:
        self.image = self._runtime.machine.state.copy()
        self._hosting.take_over(self.image)

    def rebuilt(self, machine: ClusterMachine) -> None:
        self.image = machine.state
        self._hosting.take_over(self.image)
        if self.member is not None:
            moving = [LogId(t.id, p.index) for t in self.image.topics.values() for p in t.partitions if p.is_moving]
            self.member.changed(moved=moving)
        self._tell(Changes([], [], [], quotas=True))

    def committed(self, records: Sequence[ClusterRecord]) -> None:
        changes = changes_of(records, self.image)
        gone = [self.image.topics_by_id.get(record.topic_id) for record in records if isinstance(record, TopicDeleted)]
        for record in records:
            self._hosting.follow(self.image, record)
        if self.member is not None:
            self.member.changed(
                gone=[record.node_id for record in records if isinstance(record, BrokerUnregistered)],
                moved=[LogId(r.topic_id, r.index) for r in records if isinstance(r, PartitionAssigned)],
            )
            self.member.leaders.forget(LogId(t.id, p.index) for t in gone if t is not None for p in t.partitions)
        if changes:
            self._tell(changes)

    def _tell(self, changes: Changes) -> None:
        for watcher in self._watchers:
            watcher(changes)

    async def run(self, command: Callable[[ClusterMachine], Decision[ClusterRecord, T]]) -> T:
        """Have the machine decide; the reply when everybody here can see what it did."""
        reply = await self._runtime.run(command)
        if self._following is not None:
            await self.reach(self._runtime.committed_offset, _CATCH_UP)
        return reply

    def watch(self, watcher: Callable[[Changes], None]) -> None:
        """Be told of topics and groups that changed, when that is committed."""
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
        """Of the newest committed metadata record: moves with every change."""
        end = self._runtime.committed_offset if self._following is None else self._following.position
        return Offset(end - 1)

    def partition_state(self, log_id: LogId) -> PartitionState | None:
        topic = self.image.topics_by_id.get(log_id.topic_id)
        known = topic is not None and log_id.partition < len(topic.partitions)
        return topic.partitions[log_id.partition] if topic is not None and known else None

    def has_partition(self, partition: TopicPartition) -> bool:
        """On whatever broker."""
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
        if self.member is not None and not validate_only:
            await self.until_led([topic.name for topic in outcomes.values() if isinstance(topic, Topic)])
        return outcomes

    async def auto_create(self, wanted: Iterable[str]) -> dict[str, KafkaError]:
        """Create the topics that do not exist; those that cannot be created, and why. Internal ones are left to their owners."""
        wanted = list(wanted)
        absent = [name for name in wanted if names.is_internal(name) and name not in self.image.topics]
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The broker makes its internal topics itself.")
        refused = await self._make_missing(name for name in wanted if name not in absent)
        return {**refused, **dict.fromkeys(absent, unknown)}

    async def _make_missing(self, wanted: Iterable[str]) -> dict[str, KafkaError]:
        missing = [name for name in dict.fromkeys(wanted) if name not in self.image.topics]
        if self.member is not None and missing:
            refused = await self.member.controller.ask("create", missing)
            await self.until_led([name for name in missing if name not in refused])
            return {name: KafkaError(ErrorCode(code), message) for name, (code, message) in refused.items()}
        return await self._auto_create_here(missing)

    async def _auto_create_here(self, missing: Sequence[str]) -> dict[str, KafkaError]:
        wanted = [self._default_topic(name) for name in missing]
        outcomes = await self.create_topics(wanted, by_owner=True) if wanted else {}
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
        """The internal topic, created if this is the first that is heard of it."""
        known = self.topic(name)
        if known is not None:
            return known
        refused = (await self._make_missing([name])).get(name)
        if refused is not None:
            raise refused
        known = self.topic(name)
        if known is None:  # somebody was faster, and others too, to delete it again
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
        """Send partitions to other brokers, each on its own; outcomes in the order asked."""
        return await self.run(lambda machine: machine.reassign(wanted, may_change_factor=may_change_factor))

    # -- in a cluster ----------------------------------------------------------------------------------------------
    @property
    def controller(self) -> NodeId | None:
        """Who decides for the cluster, as far as this broker knows."""
        member = self.member
        if member is None:
            return NodeId(self._config.node_id)
        replica = member.leadership.replica(METADATA_LOG)
        known = replica.leader if replica is not None else None
        led = member.leaders.of(METADATA_LOG)
        return known or (led.leader if led is not None else None) or member.heard_controller

    @property
    def network_stamp(self) -> object:
        """Of what clients are told of leaders and brokers: the same as long as that is."""
        return self.member.network.stamp if self.member is not None else None

    @property
    def is_controller(self) -> bool:
        return self._runtime.is_leading

    @property
    def end(self) -> Offset:
        return self.log.high_watermark

    async def reach(self, offset: Offset, seconds: float) -> bool:
        """Wait until this broker knows of all metadata before an offset; whether that was so in time."""
        return self._following is None or await self._following.reach(offset, seconds)

    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        if partition is self.log:
            self._runtime.lead().add_done_callback(_look_at)
            self._mending = asyncio.ensure_future(self._mend())
            self._mending.add_done_callback(_look_at)

    def following(self, partition: Partition) -> None:
        if partition is self.log:
            self._runtime.resign()

    async def until_led(self, names: Collection[str], seconds: float = _LED_WITHIN) -> None:
        """Wait a little for new topics to have leaders: who asks for a topic wants to use it."""
        member = self.member
        if member is not None and names:
            topics = [topic for topic in map(self.topic, names) if topic is not None]
            logs = [LogId(topic.id, p.index) for topic in topics for p in topic.partitions]
            await member.network.until(lambda: all(_is_led(member, log_id) for log_id in logs), seconds)

    @property
    def _down(self) -> Collection[NodeId]:
        return self.member.leaders.down if self.member is not None else ()

    async def drain(self) -> None:
        """Move on what brokers that leave still have."""
        leaving = self.image.leaving
        if leaving:
            await self.run(lambda machine: machine.drain(leaving, self._down))

    async def unregister(self, node_id: NodeId) -> None:
        if self.member is None and node_id in self.brokers:  # it would not come again, as one of many does
            raise KafkaError(ErrorCode.INVALID_REQUEST, "This broker is alone: who would be there without it?")
        await self.run(lambda machine: machine.unregister(node_id))

    async def _join(self, told: dict[str, Any]) -> None:
        from kompat.cluster.membership import broker_told  # only in a cluster

        await self.run(lambda machine: machine.join(broker_told(told), cluster_id=new_cluster_id()))

    async def _arrived(self, told: Sequence[Any]) -> None:
        topic, index, members = told
        await self.run(lambda machine: machine.arrived(UUID(topic), index, members))

    async def _create(self, wanted: Sequence[str]) -> dict[str, tuple[int, str]]:
        if self.member is not None and any(map(names.is_internal, wanted)):
            await self.member.gathered()
        refused = await self._auto_create_here([name for name in wanted if name not in self.image.topics])
        return {name: (error.code, error.message) for name, error in refused.items()}

    async def _allocate(self, _: None) -> tuple[int, int]:
        block = await self._runtime.run(lambda machine: machine.allocate_producer_ids())
        return block.start, block.stop

    async def _end(self, _: None) -> int:
        return self.end

    # -- settings --------------------------------------------------------------------------------------------------
    async def alter_configs(
        self, wanted: Sequence[ConfigChange | ConfigReplacement], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Change or replace settings of resources, each on its own; outcomes in the order asked."""
        return await self.run(
            lambda machine: machine.alter_configs(wanted, config=self._config, validate_only=validate_only)
        )

    # -- producer ids ----------------------------------------------------------------------------------------------
    async def next_producer_id(self) -> ProducerId:
        """One that was never given before. Blocks of them are taken, so that few of these calls write anything."""
        while (found := next(self._producer_ids, None)) is None:
            if self._allocating is None:
                self._allocating = asyncio.ensure_future(self._take_block())
                self._allocating.add_done_callback(_look_at)
            await asyncio.shield(self._allocating)
        return ProducerId(found)

    async def _take_block(self) -> None:
        """Over with its last step: whoever came between that and a callback would wait for what is done, and let nobody else run."""
        try:
            self._producer_ids = iter(await self._next_block())
        finally:
            self._allocating = None

    async def _next_block(self) -> range:
        if self.member is None:
            return range(*await self._allocate(None))
        try:
            return range(*await self.member.controller.ask("producer-ids"))
        except KafkaError as error:  # producers of every age come again when they hear this, and know of no controllers
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error


def _is_led(member: Member, log_id: LogId) -> bool:
    led = member.leaders.of(log_id)
    return led is not None and led.leader is not None


def _look_at(done: asyncio.Task[None]) -> None:
    """A load that failed is tried again with the next command: its error is told then."""
    if not done.cancelled():
        done.exception()
