"""What ShareFetch and ShareAcknowledge share: the member, and its acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kompat.common.promise import Promise, all_of
from kompat.errors import ErrorCode, KafkaError, kafka_error
from kompat.handlers.support import leadership
from kompat.handlers.support.base import Context
from kompat.handlers.support.partitions import hosted
from kompat.protocol.produce import CurrentLeader
from kompat.security.acls import Kind, Operation
from kompat.share.machine.messages import AckBatch, AckType
from kompat.types import ZERO_UUID, LogId

if TYPE_CHECKING:
    from kompat.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest

    # Either request has a struct of its own for the same three fields.
    Batches: TypeAlias = (
        Sequence[ShareFetchRequest.FetchTopic.FetchPartition.AcknowledgementBatch]
        | Sequence[ShareAcknowledgeRequest.AcknowledgeTopic.AcknowledgePartition.AcknowledgementBatch]
    )

Outcomes: TypeAlias = dict[LogId, KafkaError | None]  # of acknowledgements; None: they count

MAX_MEMBER_ID = 36
FIRST_VERSION_WITH_RENEW = 2


class Member(NamedTuple):
    group_id: str
    member_id: str


def check_member(ctx: Context, req: ShareFetchRequest | ShareAcknowledgeRequest) -> Member:
    group_id, member_id = req.group_id, req.member_id
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, group_id)
    if not member_id or len(member_id) > MAX_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return Member(group_id, member_id)


def acknowledgement_batches(req: ShareFetchRequest | ShareAcknowledgeRequest) -> dict[LogId, Batches]:
    """The batches of acknowledgements in a request, by partition; partitions without any are left out."""
    return {
        LogId(topic.topic_id or ZERO_UUID, partition.partition_index): partition.acknowledgement_batches
        for topic in req.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def unknown(ctx: Context, partition: LogId) -> KafkaError | None:
    """The error of a partition that cannot be used here: it does not exist, the client may not read it, or another broker leads."""
    if ctx.services.authorizer.is_enabled:
        known = ctx.services.cluster.topic_by_id(partition.topic_id)
        if known is not None and not ctx.services.authorizer.allows(ctx, Operation.READ, Kind.TOPIC, known.name):
            return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        leadership.require_leader(hosted(ctx, "", *partition))
    except KafkaError as error:
        return error
    return None


def leader_of(ctx: Context, partition: LogId, *codes: int) -> CurrentLeader | None:
    """The current leader, where a response with these codes has to name it."""
    if ErrorCode.NOT_LEADER_OR_FOLLOWER not in codes:
        return None
    return leadership.current_leader(ctx, "", *partition)


def acknowledge(ctx: Context, member: Member, batches: Mapping[LogId, Batches], *, renew: bool) -> Promise[Outcomes]:
    """Make the acknowledgements of a request: done when every partition's outcome is known."""
    outcomes: Outcomes = {}
    may_renew = ctx.api_version >= FIRST_VERSION_WITH_RENEW and renew
    valid: dict[LogId, list[AckBatch]] = {}
    for partition, each in batches.items():
        error = unknown(ctx, partition) or _invalid(each, may_renew=may_renew)
        if error is None:
            valid[partition] = [AckBatch(b.first_offset, b.last_offset, b.acknowledge_types) for b in each]
        outcomes[partition] = error
    acknowledged = ctx.services.shares.acknowledge(*member, valid)
    done: Promise[Outcomes] = Promise()

    def all_done(_: object) -> None:
        for partition, promise in acknowledged:
            outcomes[partition] = None if promise.error is None else kafka_error(promise.error)
        done.resolve(outcomes)

    all_of(each.promise for each in acknowledged).add_done_callback(all_done)
    return done


def _invalid(batches: Batches, *, may_renew: bool) -> KafkaError | None:
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
