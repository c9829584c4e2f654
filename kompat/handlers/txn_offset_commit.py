"""TxnOffsetCommit: commit offsets of a group with the producer's transaction.

The group's partition of `__consumer_offsets` has to be in the transaction. v5 (transaction.version 2) adds it where it is
not; below, AddOffsetsToTxn has to do that. v3+ has the member and its generation, which are checked as in OffsetCommit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from kompat.cluster.names import CONSUMER_OFFSETS
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import CommitRequest, CommittedTopic, TopicErrors
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.offset_topics import PartitionErrors, RequestedTopic, commit_existing
from kompat.handlers.support.parts import Cut
from kompat.handlers.support.transactional_produce import Guard, is_open, verified
from kompat.protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.machine import Producer
from kompat.types import ProducerEpoch, ProducerId, TopicPartition

FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS = 5

TopicRequest: TypeAlias = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
TopicAnswer: TypeAlias = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
PartitionAnswer: TypeAlias = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic.TxnOffsetCommitResponsePartition


async def handle(ctx: Context, req: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    ctx.services.authorizer.require(ctx, Operation.WRITE, Kind.TRANSACTIONAL_ID, req.transactional_id)
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    topics = [RequestedTopic(ctx, each.name, each.partitions) for each in req.topics]
    errors = await commit_existing(topics, lambda existing: _commit(ctx, req, existing))
    return TxnOffsetCommitResponse(topics=[_answer(*each) for each in zip(req.topics, errors, strict=True)])


async def _commit(
    ctx: Context, req: TxnOffsetCommitRequest, topics: tuple[CommittedTopic, ...]
) -> Sequence[TopicErrors]:
    if not req.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    request = CommitRequest(
        group_id=req.group_id,
        member_id=req.member_id,
        group_instance_id=req.group_instance_id,
        generation_id=req.generation_id,
        topics=topics,
        api_version=ctx.api_version,
        producer_id=ProducerId(req.producer_id),
        producer_epoch=ProducerEpoch(req.producer_epoch),
    )
    try:
        guard = await _take_part(ctx, req)
        return await ctx.services.groups.commit_offsets(request, None if guard is None else guard.check)
    except KafkaError as error:
        raise KafkaError(_translated(ctx, error.code)) from error


async def _take_part(ctx: Context, req: TxnOffsetCommitRequest) -> Guard | None:
    """Ensure that the group's partition is in the transaction, so that the end marker is written there."""
    coordinator_partition = TopicPartition(CONSUMER_OFFSETS, await ctx.services.groups.partition_of(req.group_id))
    partition = ctx.services.logs.find(coordinator_partition.topic, coordinator_partition.partition)
    if partition is None or not partition.is_led:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    producer = Producer(req.producer_id, req.producer_epoch)
    if is_open(partition, producer):
        return Guard(partition, producer.id)
    transactions = ctx.services.transactions
    if ctx.api_version >= FIRST_VERSION_THAT_ADDS:
        await transactions.add_patiently(req.transactional_id, producer, [coordinator_partition])
    elif ctx.services.config["transaction.partition.verification.enable"]:
        return await verified(transactions, req.transactional_id, producer, partition)
    return None


def _translated(ctx: Context, code: ErrorCode) -> ErrorCode:
    """Clients of this API know some errors of the transaction coordinator by other names."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and ctx.api_version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _answer(topic: TopicRequest, errors: PartitionErrors) -> TopicAnswer:
    return TopicAnswer(
        name=topic.name,
        partitions=[PartitionAnswer(partition_index=index, error_code=code) for index, code in errors],
    )


def failure(req: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[_answer(each, [(p.partition_index, error.code) for p in each.partitions]) for each in req.topics]
    )


HANDLER = Handler(
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions")),),
)
