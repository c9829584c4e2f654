"""DeleteTopics (key 20, v1-6): delete topics by name, or by id (v6).

The answer has both where the topic was found. A topic that the request has twice is INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from kompat.cluster.state import Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse
from kompat.types import ZERO_UUID

FIRST_VERSION_WITH_IDS = 6
NO_ID = (None, ZERO_UUID)

Result: TypeAlias = DeleteTopicsResponse.DeletableTopicResult


async def handle(ctx: Context, req: DeleteTopicsRequest) -> DeleteTopicsResponse:
    wanted: list[str | UUID] = list(req.topic_names)
    results = []
    for topic in req.topics if ctx.api_version >= FIRST_VERSION_WITH_IDS else ():
        has_id = topic.topic_id not in NO_ID
        if has_id == (topic.name is not None):
            results.append(_failed(topic.name, topic.topic_id, _unclear(has_id)))
        else:
            wanted.append(topic.topic_id if has_id else topic.name)
    outcomes = await ctx.services.cluster.delete_topics(wanted)
    return DeleteTopicsResponse(responses=results + [_result(key, outcome) for key, outcome in outcomes.items()])


def _unclear(has_both: bool) -> KafkaError:
    reason = (
        "You may not specify both topic name and topic id." if has_both else "Neither topic name nor id were specified."
    )
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _result(key: str | UUID, outcome: Topic | KafkaError) -> Result:
    if isinstance(outcome, KafkaError):
        return _failed(None, key, outcome) if isinstance(key, UUID) else _failed(key, None, outcome)
    return Result(name=outcome.name, topic_id=outcome.id, error_code=ErrorCode.NONE, error_message=None)


def _failed(name: str | None, topic_id: UUID | None, error: KafkaError) -> Result:
    return Result(name=name, topic_id=topic_id, error_code=error.code, error_message=describe(error))


def failure(req: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[_failed(name, None, error) for name in req.topic_names]
        + [_failed(topic.name, topic.topic_id, error) for topic in req.topics]
    )


API = Api(
    key=20,
    name="DeleteTopics",
    versions=Versions(1, 6),
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    handle=handle,
    failure=failure,
    is_for_controller=lambda _: True,
)
