"""WriteTxnMarkers: write the end of transactions into partitions.

Transaction coordinators send it to other brokers; an operator sends it to end a hanging transaction
(`kafka-transactions abort`). Each partition is answered on its own.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.partitions import hosted
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.markers import Marker
from kompat.types import ZERO_UUID, TopicPartition

Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = Result.WritableTxnMarkerTopicResult
PartitionResult = TopicResult.WritableTxnMarkerPartitionResult


async def handle(ctx: Context, req: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    authorizer = ctx.services.authorizer
    if not authorizer.allows(ctx, Operation.ALTER, Kind.CLUSTER):
        authorizer.require(ctx, Operation.CLUSTER_ACTION, Kind.CLUSTER)
    results = []
    for each in req.markers:
        marker = Marker(
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            commit=each.transaction_result,
            coordinator_epoch=each.coordinator_epoch,
        )
        topics = []
        for topic in each.topics:
            codes = [await _write(ctx, TopicPartition(topic.name, index), marker) for index in topic.partition_indexes]
            partitions = [
                PartitionResult(partition_index=index, error_code=code)
                for index, code in zip(topic.partition_indexes, codes, strict=True)
            ]
            topics.append(TopicResult(name=topic.name, partitions=partitions))
        if topics:
            results.append(Result(producer_id=each.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=results)


async def _write(ctx: Context, partition: TopicPartition, marker: Marker) -> ErrorCode:
    try:
        hosted(ctx, partition.topic, ZERO_UUID, partition.partition)
        await ctx.services.transactions.write_marker(partition, marker)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def failure(req: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            Result(
                producer_id=each.producer_id,
                topics=[
                    TopicResult(
                        name=topic.name,
                        partitions=[
                            PartitionResult(partition_index=index, error_code=error.code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in req.markers
        ]
    )


HANDLER = Handler(
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    handle,
    failure,
    parts=(Cut("markers", "markers", Cut("topics", "topics", Cut("partition_indexes", "partitions"))),),
)
