"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, and the expiry of offsets."""

from collections.abc import Callable, Iterable
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.classic import ClassicGroup, ClassicState
from kompat.groups.machine.classic_rebalance import ClassicRebalance
from kompat.groups.machine.consumer import ConsumerGroup
from kompat.groups.machine.consumer_member import ConsumerMember
from kompat.groups.machine.messages import (
    NO_GENERATION,
    UNKNOWN_MEMBER_ID,
    CommitRequest,
    CommittedPartition,
    FetchedOffset,
    FetchedTopic,
    FetchRequest,
    TopicErrors,
    TopicOffsets,
)
from kompat.groups.machine.offsets import Offsets
from kompat.groups.machine.state import GroupState, Turn
from kompat.groups.records import OffsetCommit, OffsetCommitValue
from kompat.types import NO_PRODUCER, ZERO_UUID, Millis

NEVER = 2**63 - 1  # the latest time that a record can have
EPOCHS_SINCE = 9  # version of OffsetCommit that members of consumer groups have to use
PartitionCheck = Callable[[str, UUID, int], None]


def _allow(_topic: str, _topic_id: UUID, _partition: int) -> None:
    return


class OffsetProtocol:
    def __init__(self, state: GroupState, offsets: Offsets, rebalance: ClassicRebalance) -> None:
        self._state = state
        self._offsets = offsets
        self._rebalance = rebalance

    # --- commit

    def commit(self, request: CommitRequest, turn: Turn) -> tuple[TopicErrors, ...]:
        check = self._check_commit(request, turn)
        limit = self._state.settings.offset_metadata_max_bytes
        answers = []
        for topic in request.topics:
            errors = []
            topic_id = self._topic_id(request, topic.name, topic.topic_id, check)
            stored_id = self._shared(topic.name, topic.topic_id)
            for partition in topic.partitions:
                if len(partition.metadata or "") > limit:
                    errors.append((partition.partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                    continue
                check(topic.name, topic_id, partition.partition)
                errors.append((partition.partition, ErrorCode.NONE))
                turn.records.append(self._record(request, topic.name, stored_id, partition, turn.now))
            answers.append(TopicErrors(name=topic.name, topic_id=topic.topic_id, partitions=tuple(errors)))
        return tuple(answers)

    def _shared(self, name: str, topic_id: UUID) -> UUID:
        """The same id as one shared object: else it would be a quarter of an offset's memory."""
        topic = self._state.topics.find(name)
        return topic.topic_id if topic is not None and topic.topic_id == topic_id else topic_id

    def _topic_id(self, request: CommitRequest, name: str, topic_id: UUID, check: PartitionCheck) -> UUID:
        """Transactional commits have only the names of their topics."""
        if request.producer_id == NO_PRODUCER or check is _allow:
            return topic_id
        topic = self._state.topics.find(name)
        if topic is None:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return topic.topic_id

    @staticmethod
    def _record(
        request: CommitRequest, topic: str, topic_id: UUID, new: CommittedPartition, now: Millis
    ) -> OffsetCommit:
        is_transactional = request.producer_id != NO_PRODUCER
        expires = min(now + request.retention_time_ms, NEVER) if request.retention_time_ms != -1 else -1
        return OffsetCommit(
            group_id=request.group_id,
            topic=topic,
            partition=new.partition,
            value=OffsetCommitValue(
                offset=new.offset,
                leader_epoch=new.leader_epoch,
                metadata=new.metadata or "",
                commit_timestamp=now,
                expire_timestamp=-1 if is_transactional else expires,
                topic_id=ZERO_UUID if is_transactional else topic_id,
            ),
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )

    def _check_commit(self, request: CommitRequest, turn: Turn) -> PartitionCheck:
        """Check whether the member may commit at all; further checks are made for each partition."""
        group = self._state.groups.get(request.group_id)
        is_transactional = request.producer_id != NO_PRODUCER
        if group is None:
            if request.generation_id < 0:
                return _allow  # the offsets create a simple group
            if is_transactional or request.api_version < EPOCHS_SINCE:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        if isinstance(group, ClassicGroup):
            self._check_classic(group, request, is_transactional)
            member = group.members.get(request.member_id)
            is_heard_of = group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE)
            if member is not None and is_heard_of and not is_transactional:
                self._rebalance.hear_of(group, member, turn)
            return _allow
        if not isinstance(group, ConsumerGroup):
            raise _not_a_consumer_group(group.group_id)
        try:
            return _check_consumer(group, request, is_transactional)
        except KafkaError as error:
            raise _for_transaction(error) if is_transactional else error from None

    @staticmethod
    def _check_classic(group: ClassicGroup, request: CommitRequest, is_transactional: bool) -> None:
        if request.generation_id < 0 and group.is_empty:
            return  # an administrator, or a consumer that assigns its partitions itself
        is_anonymous = request.member_id == UNKNOWN_MEMBER_ID and request.group_instance_id is None
        if request.generation_id >= 0 or not is_anonymous:
            group.check_member(request.member_id, request.group_instance_id)
            if request.generation_id != group.generation_id:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and group.state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    # --- fetch

    def committed(self, request: FetchRequest) -> tuple[FetchedTopic, ...]:
        """The topics that the group has offsets for."""
        self._check_reader(request)
        offsets = self._offsets.of_group(request.group_id)
        return tuple(FetchedTopic(name=name, partitions=tuple(known)) for name, known in offsets.items())

    def fetch(self, request: FetchRequest) -> tuple[TopicOffsets, ...]:
        self._check_reader(request)
        topics = self.committed(request) if request.topics is None else request.topics
        return tuple(self._fetch_topic(request, topic) for topic in topics)

    def _check_reader(self, request: FetchRequest) -> None:
        group = self._state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and (request.member_id is not None or request.member_epoch >= 0):
            member = group.member(request.member_id or "")
            if member.epoch != request.member_epoch:
                message = (
                    f"The received member epoch {request.member_epoch} does not match the expected {member.epoch}."
                )
                raise KafkaError(_stale(member), message)

    def _fetch_topic(self, request: FetchRequest, topic: FetchedTopic) -> TopicOffsets:
        fetched = tuple(self._fetch_partition(request, topic, partition) for partition in topic.partitions)
        return TopicOffsets(name=topic.name, topic_id=topic.topic_id, partitions=fetched)

    def _fetch_partition(self, request: FetchRequest, topic: FetchedTopic, partition: int) -> FetchedOffset:
        if request.require_stable and self._offsets.is_pending(request.group_id, topic.name, partition):
            return FetchedOffset(partition=partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        value = self._offsets.find(request.group_id, topic.name, partition)
        # An offset of a deleted topic is not valid for a new one of the same name.
        if value is None or (ZERO_UUID not in (value.topic_id, topic.topic_id) and value.topic_id != topic.topic_id):
            return FetchedOffset(partition=partition)
        return FetchedOffset(
            partition=partition, offset=value.offset, leader_epoch=value.leader_epoch, metadata=value.metadata
        )

    # --- delete

    def delete(self, group_id: str, topics: Iterable[FetchedTopic], turn: Turn) -> tuple[TopicErrors, ...]:
        group = self._state.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise _not_a_consumer_group(group.group_id)
        if isinstance(group, ClassicGroup) and not group.is_empty and not group.is_consumer:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        answers = []
        for topic in topics:
            is_subscribed = group.is_subscribed_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
            for partition in topic.partitions:
                known = self._offsets.find(group_id, topic.name, partition) is not None
                if not is_subscribed and (known or self._offsets.is_pending(group_id, topic.name, partition)):
                    turn.records.append(tombstone(group_id, topic.name, partition))
            answers.append(TopicErrors(name=topic.name, partitions=tuple((n, error) for n in topic.partitions)))
        return tuple(answers)

    def delete_all(self, group_id: str, turn: Turn) -> None:
        turn.records += [tombstone(group_id, topic, partition) for topic, partition in self._offsets.places(group_id)]

    def delete_of_topic(self, name: str, topic_id: UUID, turn: Turn) -> None:
        """Remove the offsets of a deleted topic; those of a new one of the same name stay."""
        found = {
            (group_id, partition)
            for group_id, partition, value in self._offsets.of_topic(name)
            if value.topic_id in (ZERO_UUID, topic_id)
        }
        turn.records += [tombstone(group_id, name, partition) for group_id, partition in sorted(found)]

    # --- expiry

    def expire(self, group_id: str, turn: Turn) -> bool:
        """Expire old offsets of a group; returns whether the group has none left."""
        group = self._state.groups[group_id]
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            return False  # it has no offsets here, and stays until it is deleted
        topics = self._offsets.of_group(group_id)
        since = _expires_since(group)
        if since is None:
            return False
        kept = False
        for topic, partitions in topics.items():
            if group.is_subscribed_to(topic):
                kept = True
                continue
            for partition, stored in partitions.items():
                is_pending = self._offsets.is_pending(group_id, topic, partition)
                if is_pending or not self._is_expired(stored.value, since, turn.now):
                    kept = True
                else:
                    turn.records.append(tombstone(group_id, topic, partition))
        return not kept and not self._offsets.has_pending(group_id)

    def _is_expired(self, value: OffsetCommitValue, since: int, now: Millis) -> bool:
        if value.expire_timestamp != -1:
            return now >= value.expire_timestamp
        base = value.commit_timestamp if since == -1 else since
        return now - base >= self._state.settings.offsets_retention_ms


def _not_a_consumer_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def tombstone(group_id: str, topic: str, partition: int) -> OffsetCommit:
    return OffsetCommit(group_id=group_id, topic=topic, partition=partition, value=None)


def _expires_since(group: ClassicGroup | ConsumerGroup) -> int | None:
    """When retention starts: a time, -1 for the time of the commit, None for never."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return -1
    if group.is_empty:
        return -1 if group.state_timestamp is None else group.state_timestamp
    if group.state is ClassicState.STABLE and group.is_consumer and group.subscribed_topics is not None:
        return -1
    return None


def _check_consumer(group: ConsumerGroup, request: CommitRequest, is_transactional: bool) -> PartitionCheck:
    epoch = request.generation_id
    if epoch < 0 and group.is_empty:
        return _allow
    is_anonymous = request.member_id == UNKNOWN_MEMBER_ID and request.group_instance_id is None
    if is_transactional and epoch == NO_GENERATION and is_anonymous:
        return _allow
    member = group.member(request.member_id)
    if not is_transactional and member.classic is None and request.api_version < EPOCHS_SINCE:
        message = (
            f"OffsetCommit version {EPOCHS_SINCE} or above must be used by members using the consumer group protocol"
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    if epoch == member.epoch:
        return _allow
    if epoch > member.epoch:
        raise KafkaError(_stale(member), f"Received {epoch} is newer than current member epoch {member.epoch}.")
    return lambda topic, topic_id, partition: _check_held(member, epoch, topic, topic_id, partition, is_transactional)


def _check_held(
    member: ConsumerMember, epoch: int, topic: str, topic_id: UUID, partition: int, is_transactional: bool
) -> None:
    """A commit under an older epoch is valid if the member has had the partition ever since."""
    since = member.assignment_epoch(topic_id, partition)
    if since is None or epoch < since:
        error = KafkaError(_stale(member), f"{topic}-{partition} was not the member's at epoch {epoch}.")
        raise _for_transaction(error) if is_transactional else error


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _for_transaction(error: KafkaError) -> KafkaError:
    """Transactional producers only know generations."""
    if error.code is ErrorCode.STALE_MEMBER_EPOCH:
        return KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message)
    return error
