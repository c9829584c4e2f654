"""The cluster's state machine: commands return records, which change the cluster when they are applied.

Ids, choices of nodes and configs are arguments: the same records give the same cluster on every broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from kompat.cluster import acls, configs, internal, quotas, scram_users, topics
from kompat.cluster import reassignment_rules as moves
from kompat.cluster.records import (
    BrokerRegistered,
    BrokerUnregistered,
    ClusterCreated,
    ClusterRecord,
    ConfigsSet,
    DirectoryReplaced,
    PartitionsCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from kompat.cluster.requests import ConfigChange, ConfigReplacement, MorePartitions, NewTopic, Reassignment
from kompat.cluster.state import Broker, ClusterState, Resource, ResourceType, Topic
from kompat.config.broker import BrokerConfig
from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import Acl, AclFilter
from kompat.types import NodeId

PRODUCER_ID_BLOCK = 1000

H = TypeVar("H", bound=Hashable)
Outcomes = dict[H, Topic | KafkaError]


class ClusterMachine:
    def __init__(self) -> None:
        self.state = ClusterState()

    def apply(self, record: ClusterRecord) -> None:
        record.change(self.state)

    def snapshot(self) -> Iterator[ClusterRecord]:
        state = self.state
        yield ClusterCreated(state.cluster_id)
        yield ProducerIdsAllocated(state.next_producer_id)
        yield from (BrokerRegistered(broker) for broker in state.brokers.values())
        yield from (DirectoryReplaced(node, logs) for node, logs in state.replaced.items())
        yield from (TopicCreated(topic) for topic in state.topics.values())
        yield from (ConfigsSet(resource, found) for resource, found in state.configs.items())
        yield from scram_users.records_of(state)
        yield from acls.records_of(state)
        yield from quotas.records_of(state)

    # -- the cluster -----------------------------------------------------------------------------------------------
    def join(self, broker: Broker, *, cluster_id: str, secret: bytes) -> Decision[ClusterRecord, None]:
        """A broker registers; the first one founds the cluster, with this id, and with a secret for unknown users' credentials."""
        records: list[ClusterRecord] = []
        if not self.state.cluster_id:
            records.append(ClusterCreated(cluster_id))
        if not self.state.stand_ins.secret:
            records.append(scram_users.StandInsSet(replace(self.state.stand_ins, secret=secret)))
        if self.state.brokers.get(broker.node_id) != broker:
            records.append(BrokerRegistered(broker))
        return Decision(records, None)

    def unregister(self, node_id: NodeId) -> Decision[ClusterRecord, None]:
        if node_id not in self.state.brokers:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node_id} is not currently registered")
        return Decision([BrokerUnregistered(node_id)], None)

    def allocate_producer_ids(self) -> Decision[ClusterRecord, range]:
        first = self.state.next_producer_id
        block = range(first, first + PRODUCER_ID_BLOCK)
        return Decision([ProducerIdsAllocated(block.stop)], block)

    # -- topics ----------------------------------------------------------------------------------------------------
    def create_topics(
        self,
        wanted: Sequence[tuple[NewTopic, UUID]],
        *,
        start: int,
        config: BrokerConfig,
        down: Collection[NodeId] = (),
        validate_only: bool = False,
        by_owner: bool = False,
    ) -> Decision[ClusterRecord, Outcomes[str]]:
        """Each topic is created or refused on its own. `start`: the broker of partition 0 of the first one. `by_owner`: internal
        topics may be among them."""
        if sum(topics.requested_partitions(new, config) for new, _ in wanted) > topics.MAX_PARTITIONS_PER_REQUEST:
            return Decision([], {new.name: topics.too_many() for new, _ in wanted})
        count = Counter(new.name for new, _ in wanted)
        outcomes: Outcomes[str] = {}
        created: dict[str, Topic] = {}
        for new, topic_id in wanted:
            try:
                _refuse_duplicate(count[new.name])
                topic = topics.plan_topic(
                    self.state, new, topic_id, start=start, config=config, taken=created, down=down, by_owner=by_owner
                )
            except KafkaError as error:
                outcomes[new.name] = error
            else:
                outcomes[new.name] = created[new.name] = topic
                start += len(topic.partitions)
        records = [] if validate_only else [TopicCreated(topic) for topic in created.values()]
        return Decision(records, outcomes)

    def delete_topics(
        self, wanted: Sequence[str | UUID], *, config: BrokerConfig
    ) -> Decision[ClusterRecord, Outcomes[str | UUID]]:
        """By name or id, whichever the caller has."""
        if not config.flag("delete.topic.enable"):
            disabled = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            return Decision([], dict.fromkeys(wanted, disabled))
        found = {key: self._find(key) for key in wanted}
        count = Counter(wanted)
        named = Counter(topic.id for topic in found.values() if topic is not None)
        outcomes: Outcomes[str | UUID] = {}
        for key, topic in found.items():
            try:
                _refuse_duplicate(max(count[key], named[topic.id] if topic is not None else 1))
                outcomes[key] = _known(key, topic)
            except KafkaError as error:
                outcomes[key] = error
        return Decision([TopicDeleted(t.id) for t in outcomes.values() if isinstance(t, Topic)], outcomes)

    def _find(self, key: str | UUID) -> Topic | None:
        return self.state.topics_by_id.get(key) if isinstance(key, UUID) else self.state.topics.get(key)

    def create_partitions(
        self,
        wanted: Sequence[MorePartitions],
        *,
        start: int,
        down: Collection[NodeId] = (),
        validate_only: bool = False,
    ) -> Decision[ClusterRecord, dict[str, KafkaError | None]]:
        count = Counter(more.name for more in wanted)
        outcomes: dict[str, KafkaError | None] = {}
        records: list[ClusterRecord] = []
        for more in wanted:
            try:
                _refuse_duplicate(count[more.name])
                topic = _known(more.name, self.state.topics.get(more.name))
                added = topics.plan_partitions(self.state, topic, more, start=start, down=down)
            except KafkaError as error:
                outcomes[more.name] = error
            else:
                outcomes[more.name] = None
                records.append(PartitionsCreated(topic.id, added))
        return Decision([] if validate_only else records, outcomes)

    # -- moves -----------------------------------------------------------------------------------------------------
    def reassign(
        self, wanted: Sequence[Reassignment], *, may_change_factor: bool = True
    ) -> Decision[ClusterRecord, list[KafkaError | None]]:
        """Each reassignment is started or refused on its own; outcomes are in the order of the request."""
        outcomes: list[KafkaError | None] = []
        records: list[ClusterRecord] = []
        for each in wanted:
            try:
                planned = moves.plan_move(self.state, each, may_change_factor=may_change_factor)
            except KafkaError as error:
                outcomes.append(error)
            else:
                outcomes.append(None)
                records += [planned] if planned is not None else []
        return Decision(records, outcomes)

    def arrived(self, topic_id: UUID, index: int, members: Collection[NodeId]) -> Decision[ClusterRecord, None]:
        """A partition's leader reports its replicas: the end of a reassignment, if they are its target."""
        planned = moves.plan_arrival(self.state, topic_id, index, members)
        return Decision([planned] if planned is not None else [], None)

    def drain(self, leaving: Collection[NodeId], down: Collection[NodeId]) -> Decision[ClusterRecord, int]:
        """Reassign the replicas of brokers that are being drained; returns how many partitions that are."""
        planned = list(moves.plan_drain(self.state, leaving, down))
        return Decision(planned, len(planned))

    # -- settings --------------------------------------------------------------------------------------------------
    def alter_configs(
        self, wanted: Sequence[ConfigChange | ConfigReplacement], *, config: BrokerConfig, validate_only: bool = False
    ) -> Decision[ClusterRecord, list[KafkaError | None]]:
        """Each resource is changed or refused on its own; outcomes are in the order of the request."""
        outcomes: list[KafkaError | None] = []
        records: list[ClusterRecord] = []
        count = Counter(each.resource for each in wanted)
        for each in wanted:
            try:
                _refuse_duplicate(count[each.resource], "Each resource must appear at most once.")
                planned = self._plan_configs(each, config)
            except KafkaError as error:
                outcomes.append(error)
            else:
                outcomes.append(None)
                if planned != configs.overrides(self.state, each.resource):
                    records.append(ConfigsSet(each.resource, planned))
        return Decision([] if validate_only else records, outcomes)

    def mend_internal_topics(self, *, config: BrokerConfig) -> Decision[ClusterRecord, list[str]]:
        """Correct configs of internal topics that their coordinators cannot work with, as when replicas were removed since; returns
        the names of these topics."""
        found = (
            (topic, internal.mended(topic.name, topic.configs, topic.replication_factor, config))
            for topic in self.state.topics.values()
            if topic.internal
        )
        wrong = [(topic, configs) for topic, configs in found if configs != topic.configs]
        records = [ConfigsSet(Resource(ResourceType.TOPIC, topic.name), configs) for topic, configs in wrong]
        return Decision(records, [topic.name for topic, _ in wrong])

    def _plan_configs(self, wanted: ConfigChange | ConfigReplacement, config: BrokerConfig) -> dict[str, str]:
        if isinstance(wanted, ConfigChange):
            return configs.plan_change(self.state, wanted, config)
        return configs.plan_replacement(self.state, wanted, config)

    # -- who may do what, and how much -----------------------------------------------------------------------------
    def create_acls(self, wanted: Sequence[Acl]) -> Decision[ClusterRecord, list[KafkaError | None]]:
        added, outcomes = acls.plan_creation(self.state.acls, wanted)
        return Decision(list(added), outcomes)

    def delete_acls(self, filters: Sequence[AclFilter]) -> Decision[ClusterRecord, list[list[Acl] | KafkaError]]:
        removed, outcomes = acls.plan_removal(self.state.acls, filters)
        return Decision(list(removed), outcomes)

    def alter_quotas(
        self, wanted: Sequence[quotas.QuotaChange], *, validate_only: bool = False
    ) -> Decision[ClusterRecord, list[KafkaError | None]]:
        planned, outcomes = quotas.plan_change(self.state.quotas, wanted)
        return Decision([] if validate_only else list(planned), outcomes)

    # -- users -----------------------------------------------------------------------------------------------------
    def alter_users(
        self, deletions: Sequence[scram_users.Deletion], upsertions: Sequence[scram_users.Upsertion]
    ) -> Decision[ClusterRecord, dict[str, KafkaError | None]]:
        """Each user is changed or refused on its own."""
        records, outcomes = scram_users.plan_alteration(self.state, deletions, upsertions)
        return Decision(list(records), outcomes)

    def first_users(self, wanted: Sequence[scram_users.ScramCredentialSet]) -> Decision[ClusterRecord, list[str]]:
        """Create those of the users that do not exist; returns their names."""
        records = scram_users.plan_first(self.state, wanted)
        return Decision(list(records), sorted({record.user for record in records}))


def _refuse_duplicate(count: int, message: str = "Duplicate topic name.") -> None:
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _known(key: str | UUID, topic: Topic | None) -> Topic:
    if topic is not None:
        return topic
    if isinstance(key, UUID):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
