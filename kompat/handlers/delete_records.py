"""DeleteRecords: move the start of partitions' logs to an offset; -1 is the high watermark.

Internal topics are refused INVALID_TOPIC_EXCEPTION, topics that only compact POLICY_VIOLATION, and offsets above the
high watermark OFFSET_OUT_OF_RANGE. The answer has the log's new start, once that is committed.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import partitions
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from kompat.security.acls import Kind, Operation
from kompat.types import Offset

UNKNOWN = -1

TopicAnswer: TypeAlias = DeleteRecordsResponse.DeleteRecordsTopicResult
PartitionAnswer: TypeAlias = DeleteRecordsResponse.DeleteRecordsTopicResult.DeleteRecordsPartitionResult


async def handle(ctx: Context, req: DeleteRecordsRequest) -> DeleteRecordsResponse:
    # All at once, so that they share a commit.
    requested = [(topic.name, p.partition_index, p.offset) for topic in req.topics for p in topic.partitions]
    answers = iter(await asyncio.gather(*(_answer(ctx, *each) for each in requested)))
    return DeleteRecordsResponse(
        topics=[TopicAnswer(name=t.name, partitions=[next(answers) for _ in t.partitions]) for t in req.topics]
    )


async def _answer(ctx: Context, topic: str, index: int, offset: int) -> PartitionAnswer:
    try:
        start = await _delete(ctx, topic, index, offset)
    except KafkaError as error:
        return _failed(index, error)
    return PartitionAnswer(partition_index=index, low_watermark=start, error_code=ErrorCode.NONE)


async def _delete(ctx: Context, name: str, index: int, offset: int) -> Offset:
    ctx.services.authorizer.require(ctx, Operation.DELETE, Kind.TOPIC, name)
    partition = partitions.find(ctx, name, index)
    return await partition.delete_records(Offset(offset))


def _failed(index: int, error: KafkaError) -> PartitionAnswer:
    return PartitionAnswer(partition_index=index, low_watermark=UNKNOWN, error_code=error.code)


def failure(req: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            TopicAnswer(name=t.name, partitions=[_failed(p.partition_index, error) for p in t.partitions])
            for t in req.topics
        ]
    )


HANDLER = Handler(
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics", Cut("partitions", "partitions")),),
)
