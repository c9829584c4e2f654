"""DeleteShareGroupOffsets (key 92, v0): forget where a share group without members stands in some topics."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kompat.cluster.authorizer import refusal
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.handlers.parts import Cut
from kompat.protocol.messages import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

TopicAnswer = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic


async def handle(ctx: Context, req: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    ctx.services.authorizer.require(ctx, Operation.DELETE, Kind.GROUP, req.group_id)
    if not req.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    names = list(dict.fromkeys(asked.topic_name for asked in req.topics))
    allowed = ctx.services.authorizer.allowed(ctx, Operation.READ, Kind.TOPIC, names)
    outcomes = await ctx.services.groups.delete_share_offsets(req.group_id, [n for n in names if n in allowed])
    answers = [_answer(name, ZERO_UUID, refusal(Kind.TOPIC)) for name in names if name not in allowed]
    answers += [_judged(ctx, name, error) for name, error in outcomes.items()]
    return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, error_message=None, responses=answers)


def _judged(ctx: Context, name: str, code: ErrorCode) -> Any:
    topic = ctx.services.cluster.topic(name)
    if topic is not None and code is ErrorCode.NONE:
        return _answer(name, topic.id, None)
    reason = "There is no offset information to delete." if topic is not None else ""
    return _answer(name, ZERO_UUID, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason))


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
    parts=(Cut("topics", "responses", key=lambda topic: topic.topic_name),),
)
