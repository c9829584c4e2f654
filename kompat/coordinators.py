"""Builds the coordinators of groups and transactions over the broker's logs, and lets them meet.

They know nothing of each other: that a transaction's end also settles offsets is arranged here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from kompat.clock import Clock
from kompat.cluster import dead_letters, queue_rules
from kompat.cluster.changes import Changes
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.config.broker import BrokerConfig
from kompat.config.topics import topic_config
from kompat.coordination.shards import Partitions
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.courier import Courier
from kompat.extensions.priority_index import order_of
from kompat.groups.config import ConsumerGroupSettings, GroupSettings, MigrationPolicy, ShareGroupSettings
from kompat.groups.machine.topics import TopicInfo
from kompat.groups.records import Assignment
from kompat.groups.service import GroupService
from kompat.letter_post import LetterPost
from kompat.log.manager import Logs
from kompat.log.partition import Origin, Partition
from kompat.share.dead_letters import DeadLetterWriter, Profile
from kompat.share.events import SILENT, ShareEvents
from kompat.share.machine.settings import DEFAULT_QUEUE_BACKOFF_MS, ShareSettings
from kompat.share.offsets import ShareOffsets
from kompat.share.requests import TopicIdPartition
from kompat.share.service import ShareService
from kompat.share_links import SHARES, ShareLinks
from kompat.share_registry import ShareRegistry
from kompat.transaction_links import TransactionLinks
from kompat.txn.machine import TransactionMachine
from kompat.txn.service import TransactionService
from kompat.types import LeaderEpoch, LogId, Offset

logger = logging.getLogger(__name__)

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
DEFAULT_DEAD_LETTER_TOPIC = "dlq.<topic>"  # of queues: share groups have none unless they ask for it
RELEASE_BACKOFF = "kompat.share.release.backoff.ms"


class Coordinators:
    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        cluster: ClusterService,
        logs: Logs,
        share_events: ShareEvents = SILENT,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._logs = logs
        self._clock = clock
        self._impossible: set[str] = set()  # dead-letter topics that cannot be, and were logged
        self._found: dict[str, tuple[Topic | None, Partitions]] = {}
        member = cluster.member
        self.courier = Courier(member.asking, logs, clock) if member is not None else None
        share_links = ShareLinks(cluster, member, logs) if member is not None else None
        self.shares = ShareService(
            *self._coordinated(SHARES),
            logs=logs,
            settings=self._share_settings,
            clock=clock,
            max_sessions=config["group.share.max.share.sessions"],
            order_of=order_of,
            dead_letters=DeadLetterWriter(
                self._letterbox, clock, share_events, profile=self._letter_profile, post=self._letter_post()
            ),
            events=share_events,
            elsewhere=share_links,
        )
        if share_links is not None:
            share_links.bind(self.shares)
        self.groups = GroupService(
            *self._coordinated(OFFSETS),
            settings=self._group_settings,
            topics=ClusterTopics(cluster),
            clock=clock,
            share_states=ShareStates(self.shares.offsets),
        )
        links = TransactionLinks(cluster, logs, clock)
        self.transactions = TransactionService(
            *self._coordinated(TRANSACTIONS),
            make=self._transaction_machine,
            next_producer_id=cluster.next_producer_id,
            markers=links,
            clock=clock,
        )

        links.bind(self.groups, self.transactions)
        self.share_registry = ShareRegistry(cluster, self.groups)
        if cluster.member is not None:
            cluster.member.asking.serve_appends(self._append_here)

    def start(self) -> None:
        self.groups.start()
        self.transactions.start()
        self.shares.start()
        if self._cluster.member is not None:
            self._cluster.member.leadership.watch(self)
        self._cluster.watch(self._changed)
        self._config.watch(lambda _: self._settings_changed())

    async def close(self) -> None:
        await self.shares.close()
        await self.transactions.close()
        await self.groups.close()

    def _changed(self, changes: Changes) -> None:
        if changes.groups or changes.configured or changes.topics:  # a queue topic has settings of its group
            self._settings_changed()
        if changes.topics:
            self.groups.topics_changed(changes.topics, changes.deleted)
        if changes.deleted:
            self.shares.topics_deleted(topic_id for _, topic_id in changes.deleted)

    def _settings_changed(self) -> None:
        self.groups.settings_changed()
        self.shares.settings_changed()

    def internal(
        self, name: str
    ) -> tuple[Callable[[], Sequence[Partition]], Callable[[], Awaitable[Sequence[Partition]]]]:
        """The partitions of an internal topic that are here: those that exist, and those that are made to."""
        existing, ensure = self._coordinated(name)

        async def ensured() -> Sequence[Partition]:
            return _here(await ensure())

        return lambda: _here(existing()), ensured

    def _coordinated(self, name: str) -> tuple[Callable[[], Partitions], Callable[[], Awaitable[Partitions]]]:
        """All partitions of an internal topic, also those that are on other brokers."""

        def existing() -> Partitions:
            topic = self._cluster.topic(name)
            return self._partitions(topic) if topic is not None else ()

        async def ensure() -> Partitions:
            return self._partitions(await self._cluster.ensure_internal_topic(name))

        return existing, ensure

    def _partitions(self, topic: Topic) -> Partitions:
        """Asked for with every command, so what was found is kept while the topic is the same."""
        known_topic, known = self._found.get(topic.name, (None, ()))
        if known_topic is topic:
            return known
        partitions = [self._logs.find_by_id(topic.id, each.index) for each in topic.partitions]
        if None not in partitions:
            self._found[topic.name] = (topic, partitions)
        return partitions

    async def _append_here(self, log_id: LogId, batch: memoryview) -> Offset:
        """For another broker."""
        log = self._logs.find_by_id(log_id.topic_id, log_id.partition)
        if log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        appended = log.append(batch, origin=Origin.INTERNAL)
        await appended.pending.wait()
        return appended.base_offset

    # -- who coordinates -------------------------------------------------------------------------------------------
    def leading(self, partition: Partition, _epoch: LeaderEpoch) -> None:
        if partition.topic == OFFSETS:
            self.groups.leading(partition)
        elif partition.topic == TRANSACTIONS:
            self.transactions.leading(partition)
        elif partition.topic == SHARES:
            self.shares.leading(partition)
        else:
            self.shares.leader_changed(partition)

    def following(self, partition: Partition) -> None:
        if partition.topic == OFFSETS:
            self.groups.following(partition)
        elif partition.topic == TRANSACTIONS:
            self.transactions.following(partition)
        elif partition.topic == SHARES:
            self.shares.following(partition)
        else:
            self.shares.leader_changed(partition)

    # -- settings --------------------------------------------------------------------------------------------------
    def _transaction_machine(self) -> TransactionMachine:
        return TransactionMachine(
            max_timeout_ms=self._config["transaction.max.timeout.ms"],
            expiration_ms=self._config["transactional.id.expiration.ms"],
        )

    def _group_settings(self) -> GroupSettings:
        config = self._config
        with_settings = list(self._cluster.groups_with_settings())
        return GroupSettings(
            min_session_timeout_ms=config["group.min.session.timeout.ms"],
            max_session_timeout_ms=config["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            max_size=config["group.max.size"],
            consumer=ConsumerGroupSettings(
                session_timeout_ms=config["group.consumer.session.timeout.ms"],
                heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
                assignment_interval_ms=config["group.consumer.assignment.interval.ms"],
            ),
            consumer_overrides={group: self._overrides(group) for group in with_settings},
            consumer_max_size=config["group.consumer.max.size"],
            assignors=tuple(config["group.consumer.assignors"]),
            migration_policy=MigrationPolicy(config["group.consumer.migration.policy"]),
            regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
            share=ShareGroupSettings(
                session_timeout_ms=config["group.share.session.timeout.ms"],
                heartbeat_interval_ms=config["group.share.heartbeat.interval.ms"],
                assignment_interval_ms=config["group.share.assignment.interval.ms"],
            ),
            share_overrides={group: self._share_overrides(group) for group in with_settings},
            share_max_size=config["group.share.max.size"],
            offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
            offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
            offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
        )

    def _share_settings(self, group_id: str) -> ShareSettings:
        setting: Callable[[str], Any] = partial(self._cluster.group_setting, group_id)
        is_set = partial(self._cluster.has_group_setting, group_id)
        settings = ShareSettings(
            lock_ms=setting("share.record.lock.duration.ms"),
            delivery_limit=setting("share.delivery.count.limit"),
            max_locks=setting("share.partition.max.record.locks"),
            offset_reset=setting("share.auto.offset.reset"),
            is_read_committed=setting("share.isolation.level") == "read_committed",
            can_renew=setting("share.renew.acknowledge.enable"),
            backoff_ms=setting(RELEASE_BACKOFF),
            max_backoff_ms=setting("kompat.share.release.backoff.max.ms"),
            has_dead_letters=bool(setting(dead_letters.SETTING)),
            receipt_backoff_ms=setting(RELEASE_BACKOFF) if is_set(RELEASE_BACKOFF) else DEFAULT_QUEUE_BACKOFF_MS,
            has_receipt_dead_letters=bool(self._dead_letter_topic_of(group_id)),
        )
        return self._of_queue(group_id, settings)

    def _dead_letter_topic_of(self, group_id: str) -> str:
        """Where dead letters of the group go, if it has any; `<topic>` stands for the topic of the record."""
        if not self._cluster.has_group_setting(group_id, dead_letters.SETTING):
            return DEFAULT_DEAD_LETTER_TOPIC
        return str(self._cluster.group_setting(group_id, dead_letters.SETTING))

    def _of_queue(self, group_id: str, settings: ShareSettings) -> ShareSettings:
        """A queue topic is a group of its own name, and says what it wants in its own settings."""
        topic = self._cluster.topic(group_id)
        if topic is None or not topic.configs.get(queue_rules.SOURCE):
            return settings
        config = topic_config(topic.configs, self._config)
        is_said = self._cluster.has_group_setting(group_id, "share.auto.offset.reset")
        return replace(
            settings.of_receipts(),
            lock_ms=config.kompat_queue_lock_ms,
            delivery_limit=config.kompat_queue_max_deliveries,
            # Consumers of a queue expect what came before they did.
            offset_reset=settings.offset_reset if is_said else "earliest",
        )

    def _overrides(self, group_id: str) -> ConsumerGroupSettings:
        setting: Callable[[str], Any] = partial(self._cluster.group_setting, group_id)
        return ConsumerGroupSettings(
            session_timeout_ms=setting("consumer.session.timeout.ms"),
            heartbeat_interval_ms=setting("consumer.heartbeat.interval.ms"),
            assignment_interval_ms=setting("consumer.assignment.interval.ms"),
        )

    async def _letterbox(self, group_id: str, topic: str) -> Sequence[Partition]:
        found = await self._letter_topic(group_id, topic)
        return _here(self._partitions(found)) if found is not None else ()

    async def _letter_topic(self, group_id: str, topic: str) -> Topic | None:
        """The dead-letter topic of a group's records from a topic; None: there is none, or can be none."""
        name = dead_letters.topic_for(self._dead_letter_topic_of(group_id), topic)
        if name is None or self._is_impossible(name, group_id):
            return None
        refusals = await self._cluster.auto_create([name])
        if name in refusals:
            raise refusals[name]
        return self._cluster.topic(name)

    def _is_impossible(self, name: str, group_id: str) -> bool:
        """A name may become too long by the topic's, and older versions took every name. Records do not wait for such a topic."""
        wrong = dead_letters.impossible(name)
        if wrong is not None and name not in self._impossible:
            logger.warning("records that group %s gives up have no dead letters: %s", group_id, wrong)
            self._impossible.add(name)
        return wrong is not None

    def _letter_post(self) -> LetterPost | None:
        return LetterPost(self._letter_topic, self.courier) if self.courier is not None else None

    def _letter_profile(self, group_id: str) -> Profile:
        return Profile(self._cluster.group_setting(group_id, "kompat.deadletter.headers"))

    def _share_overrides(self, group_id: str) -> ShareGroupSettings:
        setting: Callable[[str], Any] = partial(self._cluster.group_setting, group_id)
        return ShareGroupSettings(
            session_timeout_ms=setting("share.session.timeout.ms"),
            heartbeat_interval_ms=setting("share.heartbeat.interval.ms"),
            assignment_interval_ms=setting("share.assignment.interval.ms"),
        )


def _here(partitions: Partitions) -> list[Partition]:
    return [partition for partition in partitions if partition is not None]


class ShareStates:
    """The states of share groups as groups look at them."""

    def __init__(self, offsets: ShareOffsets) -> None:
        self._offsets = offsets

    async def make(self, group_id: str, partitions: Assignment) -> None:
        await self._offsets.ensure(group_id, _flat(partitions))

    async def alter(self, group_id: str, offsets: Mapping[UUID, Mapping[int, int]]) -> None:
        await self._offsets.alter(
            group_id,
            {
                TopicIdPartition(topic_id, partition): Offset(offset)
                for topic_id, starts in offsets.items()
                for partition, offset in starts.items()
            },
        )

    async def delete(self, group_id: str, partitions: Assignment) -> None:
        await self._offsets.delete(group_id, _flat(partitions))


def _flat(partitions: Assignment) -> list[TopicIdPartition]:
    return [TopicIdPartition(topic_id, number) for topic_id, part in partitions.items() for number in sorted(part)]


class ClusterTopics:
    """The cluster's topics as groups look at them."""

    def __init__(self, cluster: ClusterService) -> None:
        self._cluster = cluster

    @property
    def version(self) -> int:
        return self._cluster.metadata_offset

    def find(self, name: str) -> TopicInfo | None:
        return _info(self._cluster.topic(name))

    def find_by_id(self, topic_id: UUID) -> TopicInfo | None:
        return _info(self._cluster.topic_by_id(topic_id))

    def names(self) -> Collection[str]:
        return [topic.name for topic in self._cluster.topics()]


def _info(topic: Topic | None) -> TopicInfo | None:
    if topic is None:
        return None
    return TopicInfo(name=topic.name, topic_id=topic.id, partitions=len(topic.partitions))
