"""DescribeProducers: the idempotent and transactional producers that a partition remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kompat.cluster.names import invalid_name
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.partitions import find
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DescribeProducersRequest, DescribeProducersResponse
from kompat.security.acls import Kind, Operation

if TYPE_CHECKING:
    from kompat.log.producers import Producer

TopicAnswer: TypeAlias = DescribeProducersResponse.TopicResponse
PartitionAnswer: TypeAlias = DescribeProducersResponse.TopicResponse.PartitionResponse
ProducerState: TypeAlias = DescribeProducersResponse.TopicResponse.PartitionResponse.ProducerState


def handle(ctx: Context, req: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicAnswer(name=t.name, partitions=[_answer(ctx, t.name, index) for index in t.partition_indexes])
            for t in req.topics
        ]
    )


def _answer(ctx: Context, topic: str, index: int) -> PartitionAnswer:
    if not ctx.services.authorizer.allows(ctx, Operation.READ, Kind.TOPIC, topic):
        return _failed(index, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    known = ctx.services.cluster.topic(topic)
    if known is None:
        reason = invalid_name(topic)
        if reason:
            return _failed(index, KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason))
        return _failed(index, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    try:
        partition = find(ctx, topic, index)
    except KafkaError as error:
        return PartitionAnswer(partition_index=index, error_code=error.code, error_message=None, active_producers=[])
    return PartitionAnswer(
        partition_index=index,
        error_code=ErrorCode.NONE,
        error_message=None,
        active_producers=[_state(producer) for producer in partition.producers.active()],
    )


def _state(producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_start,
    )


def _failed(index: int, error: KafkaError) -> PartitionAnswer:
    return PartitionAnswer(
        partition_index=index, error_code=error.code, error_message=describe(error), active_producers=[]
    )


def failure(req: DescribeProducersRequest, error: KafkaError) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicAnswer(name=t.name, partitions=[_failed(index, error) for index in t.partition_indexes])
            for t in req.topics
        ]
    )


HANDLER = Handler(
    DescribeProducersRequest,
    DescribeProducersResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics", Cut("partition_indexes", "partitions")),),
)
