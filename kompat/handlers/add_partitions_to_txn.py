"""AddPartitionsToTxn: make partitions part of a producer's transaction, before it writes to them.

v0-3 come from producers, one transaction each. v4+ carry many transactions and may only verify that the partitions are
in them (`verify_only`). If a partition does not exist nothing is added: it is answered UNKNOWN_TOPIC_OR_PARTITION, the
others OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from kompat.cluster.names import is_internal
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.machine import Producer
from kompat.types import TopicPartition

FIRST_VERSION_WITH_MANY = 4
FIRST_VERSION_WITH_FENCED = 2
OLD_CLIENT, EPOCH_BUMPING_CLIENT = 0, 2

Topics = Iterable[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction.AddPartitionsToTxnTopic]
TopicResult: TypeAlias = AddPartitionsToTxnResponse.AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult
ErrorOf = Callable[[TopicPartition], ErrorCode]


async def handle(ctx: Context, req: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    authorizer = ctx.services.authorizer
    if ctx.api_version < FIRST_VERSION_WITH_MANY:
        authorizer.require(ctx, Operation.WRITE, Kind.TRANSACTIONAL_ID, req.v3_and_below_transactional_id)
        producer = Producer(req.v3_and_below_producer_id, req.v3_and_below_producer_epoch)
        error_of = await _add(ctx, req.v3_and_below_transactional_id, producer, req.v3_and_below_topics, OLD_CLIENT)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(req.v3_and_below_topics, error_of))
    authorizer.require(ctx, Operation.CLUSTER_ACTION, Kind.CLUSTER)
    results = []
    for each in req.transactions:
        producer = Producer(each.producer_id, each.producer_epoch)
        if each.verify_only:
            error_of = await _verify(ctx, each.transactional_id, producer, each.topics)
        else:
            error_of = await _add(ctx, each.transactional_id, producer, each.topics, EPOCH_BUMPING_CLIENT)
        results.append(
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=_results(each.topics, error_of)
            )
        )
    return AddPartitionsToTxnResponse(error_code=ErrorCode.NONE, results_by_transaction=results)


async def _add(ctx: Context, transactional_id: str, producer: Producer, topics: Topics, version: int) -> ErrorOf:
    wanted = _named(topics)
    refused = {p: code for p in wanted if (code := _refusal(ctx, p)) is not ErrorCode.NONE}
    if refused:
        return lambda p: refused.get(p, ErrorCode.OPERATION_NOT_ATTEMPTED)
    try:
        await ctx.services.transactions.add_partitions(transactional_id, producer, wanted, client_version=version)
    except KafkaError as error:
        code = _error_for_version(ctx, error.code)
        return lambda _: code
    return lambda _: ErrorCode.NONE


def _refusal(ctx: Context, partition: TopicPartition) -> ErrorCode:
    """Brokers, which send many transactions at once, have checked the producer's rights before."""
    if ctx.api_version < FIRST_VERSION_WITH_MANY and not _may_write(ctx, partition.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    is_known = ctx.services.cluster.has_partition(partition)
    return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _may_write(ctx: Context, topic: str) -> bool:
    return not is_internal(topic) and ctx.services.authorizer.allows(ctx, Operation.WRITE, Kind.TOPIC, topic)


async def _verify(ctx: Context, transactional_id: str, producer: Producer, topics: Topics) -> ErrorOf:
    outcomes = {}
    for partition in _named(topics):
        try:
            await ctx.services.transactions.verify(transactional_id, producer, partition)
            outcomes[partition] = ErrorCode.NONE
        except KafkaError as error:
            outcomes[partition] = _error_for_version(ctx, error.code)
    return outcomes.__getitem__


def _named(topics: Topics) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _error_for_version(ctx: Context, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and ctx.api_version < FIRST_VERSION_WITH_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _results(topics: Topics, error_of: ErrorOf) -> list[TopicResult]:
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                TopicResult.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=error_of(TopicPartition(topic.name, index))
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def failure(req: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=error.code,
        results_by_transaction=[],
        results_by_topic_v3_and_below=_results(req.v3_and_below_topics, lambda _: error.code),
    )


HANDLER = Handler(
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    handle,
    failure,
    parts=(Cut("transactions", "results_by_transaction"),),
)
