"""TxnOffsetCommit (key 28, v0-5): offsets of a group that become true when the producer's transaction commits.

The group's partition of `__consumer_offsets` has to be in the transaction. v5 (transaction.version 2) adds it where it is
not; below, AddOffsetsToTxn must have. v3+ lets the group's member be checked as in OffsetCommit.
"""

from __future__ import annotations

from kompat.cluster.names import CONSUMER_OFFSETS
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import CommitRequest
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.groups import Judged, NamedTopic, judged, refused
from kompat.handlers.offset_commit import committed
from kompat.handlers.parts import Cut
from kompat.handlers.transactional_produce import Guard, is_open, verified
from kompat.protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.machine import Producer
from kompat.types import TopicPartition

FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS = 5

TopicAnswer = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
PartitionAnswer = TopicAnswer.TxnOffsetCommitResponsePartition


async def handle(ctx: Context, req: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    ctx.services.authorizer.require(ctx, Operation.WRITE, Kind.TRANSACTIONAL_ID, req.transactional_id)
    ctx.services.authorizer.require(ctx, Operation.READ, Kind.GROUP, req.group_id)
    named = [NamedTopic(ctx, topic) for topic in req.topics]
    return TxnOffsetCommitResponse(
        topics=[
            TopicAnswer(
                name=each.asked.name,
                partitions=[PartitionAnswer(partition_index=index, error_code=code) for index, code in partitions],
            )
            for each, partitions in await _commit(ctx, req, named)
        ]
    )


async def _commit(ctx: Context, req: TxnOffsetCommitRequest, named: list[NamedTopic]) -> Judged:
    topics = tuple(committed(each) for each in named if each.existing)
    if not topics:
        return judged(named, ())
    if not req.group_id:
        return refused(named, ErrorCode.INVALID_GROUP_ID)
    request = CommitRequest(
        group_id=req.group_id,
        member_id=req.member_id,
        group_instance_id=req.group_instance_id,
        generation_id=req.generation_id,
        topics=topics,
        api_version=ctx.api_version,
        producer_id=req.producer_id,
        producer_epoch=req.producer_epoch,
    )
    try:
        guard = await _take_part(ctx, req)
        check = None if guard is None else guard.check
        return judged(named, await ctx.services.groups.commit_offsets(request, check))
    except KafkaError as error:
        return refused(named, _told(ctx, error.code))


async def _take_part(ctx: Context, req: TxnOffsetCommitRequest) -> Guard | None:
    """See to it that the group's home is in the transaction, so that its end is written there."""
    home = TopicPartition(CONSUMER_OFFSETS, await ctx.services.groups.home_of(req.group_id))
    partition = ctx.services.logs.find(home.topic, home.partition)
    if partition is None or not partition.is_led:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)
    producer = Producer(req.producer_id, req.producer_epoch)
    if is_open(partition, producer):
        return Guard(partition, producer.id)
    transactions = ctx.services.transactions
    if ctx.api_version >= FIRST_VERSION_THAT_ADDS:
        await transactions.add_patiently(req.transactional_id, producer, [home])
    elif ctx.services.config["transaction.partition.verification.enable"]:
        return await verified(transactions, req.transactional_id, producer, partition)
    return None


def _told(ctx: Context, code: ErrorCode) -> ErrorCode:
    """Clients of this API know some errors of the transaction coordinator by other names."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and ctx.api_version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def failure(req: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TopicAnswer(
                name=topic.name,
                partitions=[
                    PartitionAnswer(partition_index=each.partition_index, error_code=error.code)
                    for each in topic.partitions
                ],
            )
            for topic in req.topics
        ]
    )


API = Api(
    key=28,
    name="TxnOffsetCommit",
    versions=Versions(0, 5),
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions")),),
)
