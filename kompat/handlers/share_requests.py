"""What ShareFetch and ShareAcknowledge have in common: who is asking, and what is said of which records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import leadership
from kompat.handlers.base import Context
from kompat.log.commit import Pending
from kompat.protocol.produce import CurrentLeader
from kompat.security.acls import Kind, Operation
from kompat.share.machine.messages import AckBatch, AckType
from kompat.share.requests import TopicIdPartition
from kompat.types import ZERO_UUID

MAX_MEMBER_ID = 36
FIRST_VERSION_WITH_RENEW = 2


def check_member(ctx: Context, group_id: str | None, member_id: str | None) -> None:
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, group_id)
    if not member_id or len(member_id) > MAX_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")


def said(topics: Iterable[Any]) -> dict[TopicIdPartition, Sequence[Any]]:
    """The batches of acknowledgements in a request, by partition; partitions without any are left out."""
    return {
        TopicIdPartition(topic.topic_id or ZERO_UUID, partition.partition_index): partition.acknowledgement_batches
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def unknown(ctx: Context, partition: TopicIdPartition) -> KafkaError | None:
    """Why the partition cannot be asked for here, if it cannot: there is none, it is not the client's, or another leads it."""
    if ctx.services.authorizer.is_enabled:
        known = ctx.services.cluster.topic_by_id(partition.topic_id)
        if known is not None and not ctx.services.authorizer.allows(ctx, Operation.READ, Kind.TOPIC, known.name):
            return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    log = ctx.services.logs.find_by_id(*partition)
    if log is not None:
        return None if log.is_led else KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topic = ctx.services.cluster.topic_by_id(partition.topic_id)
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return leadership.wrong_broker(ctx, topic, partition.partition)


def leader_of(ctx: Context, partition: TopicIdPartition, *codes: int) -> CurrentLeader | None:
    """Whom to turn to instead, where that is what an answer with these codes has to tell."""
    if ErrorCode.NOT_LEADER_OR_FOLLOWER not in codes:
        return None
    return leadership.current_leader(ctx, "", *partition)


class Acknowledging:
    """The acknowledgements of one request under way: done when every partition's outcome is known."""

    __slots__ = ("_on_done", "_promises", "_waiting", "errors")

    def __init__(
        self,
        ctx: Context,
        group_id: str,
        member_id: str,
        batches: Mapping[TopicIdPartition, Sequence[Any]],
        *,
        renew: bool,
    ) -> None:
        self.errors: dict[TopicIdPartition, KafkaError | None] = {}
        self._on_done: Callable[[], None] | None = None
        may_renew = ctx.api_version >= FIRST_VERSION_WITH_RENEW and renew
        valid: dict[TopicIdPartition, list[AckBatch]] = {}
        for partition, each in batches.items():
            error = unknown(ctx, partition) or _invalid(each, may_renew=may_renew)
            if error is None:
                valid[partition] = [AckBatch(b.first_offset, b.last_offset, b.acknowledge_types) for b in each]
            self.errors[partition] = error
        self._promises = ctx.services.shares.acknowledge(group_id, member_id, valid)
        # Share partitions whose states are written together have one promise.
        pending = {id(each.promise): each.promise for each in self._promises if not each.promise.is_done}
        self._waiting = len(pending)
        for promise in pending.values():
            promise.add_done_callback(self._one_ended)
        if not pending:
            self._take_outcomes()

    @property
    def is_done(self) -> bool:
        return self._waiting == 0

    def when_done(self, callback: Callable[[], None]) -> None:
        self._on_done = callback

    def _one_ended(self, _: Pending) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            self._take_outcomes()
            if self._on_done is not None:
                self._on_done()

    def _take_outcomes(self) -> None:
        for partition, promise in self._promises:
            self.errors[partition] = promise.error


def _invalid(batches: Sequence[Any], *, may_renew: bool) -> KafkaError | None:
    last = -1
    highest = AckType.RENEW if may_renew else AckType.REJECT
    for batch in batches:
        types = batch.acknowledge_types
        size = batch.last_offset - batch.first_offset + 1
        if (
            size <= 0
            or batch.first_offset < last
            or not types
            or len(types) not in (1, size)
            or min(types) < AckType.GAP
            or max(types) > highest
        ):
            return KafkaError(ErrorCode.INVALID_REQUEST)
        last = batch.last_offset
    return None
