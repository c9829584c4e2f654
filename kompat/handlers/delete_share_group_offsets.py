"""DeleteShareGroupOffsets (key 92, v0): forget where a share group without members stands in some topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from kompat.share.requests import TopicIdPartition
from kompat.types import ZERO_UUID

TopicAnswer = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic


async def handle(ctx: Context, req: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    if not req.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    shares = ctx.services.shares
    await shares.members.check_empty(req.group_id, must_exist=True)
    known = await shares.offsets.partitions_of(req.group_id)
    answers, doomed = [], []
    for asked in req.topics:
        answer, partitions = _judge(ctx, asked.topic_name, known)
        answers.append(answer)
        doomed += partitions
    await shares.offsets.delete(req.group_id, doomed)
    return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, error_message=None, responses=answers)


def _judge(ctx: Context, name: str, known: Sequence[TopicIdPartition]) -> tuple[Any, list[TopicIdPartition]]:
    topic = ctx.services.cluster.topic(name)
    if topic is None:
        return _answer(name, ZERO_UUID, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), []
    partitions = [partition for partition in known if partition.topic_id == topic.id]
    if not partitions:
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
        return _answer(name, ZERO_UUID, error), []
    return _answer(name, topic.id, None), partitions


def _answer(name: str, topic_id: UUID, error: KafkaError | None) -> Any:
    return TopicAnswer(
        topic_name=name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else describe(error),
    )


def failure(_: DeleteShareGroupOffsetsRequest, error: KafkaError) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=describe(error), responses=[])


API = Api(
    key=92,
    name="DeleteShareGroupOffsets",
    versions=Versions(0, 0),
    request=DeleteShareGroupOffsetsRequest,
    response=DeleteShareGroupOffsetsResponse,
    handle=handle,
    failure=failure,
)
