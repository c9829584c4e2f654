"""DeleteShareGroupOffsets: forget where a share group without members stands in some topics."""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kompat.cluster.authorizer import refusal
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

TopicAnswer: TypeAlias = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic


async def handle(ctx: Context, req: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    ctx.services.authorizer.require(ctx, Operation.DELETE, Kind.GROUP, req.group_id)
    if not req.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    names = list(dict.fromkeys(requested.topic_name for requested in req.topics))
    allowed = ctx.services.authorizer.allowed(ctx, Operation.READ, Kind.TOPIC, names)
    outcomes = await ctx.services.share_groups.delete_offsets(req.group_id, [n for n in names if n in allowed])
    answers = [_answer(name, ZERO_UUID, refusal(Kind.TOPIC)) for name in names if name not in allowed]
    answers += [_deleted(ctx, name, error) for name, error in outcomes.items()]
    return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, error_message=None, responses=answers)


def _deleted(ctx: Context, name: str, code: ErrorCode) -> TopicAnswer:
    topic = ctx.services.cluster.topic(name)
    if topic is not None and code is ErrorCode.NONE:
        return _answer(name, topic.id, None)
    reason = "There is no offset information to delete." if topic is not None else ""
    return _answer(name, ZERO_UUID, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason))


def _answer(name: str, topic_id: UUID, error: KafkaError | None) -> TopicAnswer:
    return TopicAnswer(
        topic_name=name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else describe(error),
    )


def failure(_: DeleteShareGroupOffsetsRequest, error: KafkaError) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=describe(error), responses=[])


HANDLER = Handler(
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    handle,
    failure,
    parts=(Cut("topics", "responses", key=lambda topic: topic.topic_name),),
)
