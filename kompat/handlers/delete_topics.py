"""DeleteTopics: delete topics by name, or by id (v6).

The answer has both where the topic was found. A topic that the request has twice is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

from kompat.cluster.authorizer import refusal
from kompat.cluster.state import Topic
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.mutations import Mutations
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

FIRST_VERSION_WITH_IDS = 6
FIRST_STRICT_VERSION = 5  # by quotas
NO_ID = (None, ZERO_UUID)

Result: TypeAlias = DeleteTopicsResponse.DeletableTopicResult


async def handle(ctx: Context, req: DeleteTopicsRequest) -> DeleteTopicsResponse:
    wanted: list[str | UUID] = list(req.topic_names)
    results = []
    for topic in req.topics if ctx.api_version >= FIRST_VERSION_WITH_IDS else ():
        topic_id = None if topic.topic_id == ZERO_UUID else topic.topic_id
        key = topic_id or topic.name
        if key is None or (topic_id is not None and topic.name is not None):
            results.append(_failed(topic.name, topic_id, _unclear(topic_id is not None)))
        else:
            wanted.append(key)
    denied = _denied(ctx, wanted)
    mutations = Mutations(ctx, FIRST_STRICT_VERSION)
    if mutations.is_counted:
        denied |= _beyond_quota(ctx, [key for key in dict.fromkeys(wanted) if key not in denied], mutations)
    outcomes = await ctx.services.cluster.delete_topics([key for key in wanted if key not in denied])
    return DeleteTopicsResponse(
        throttle_time_ms=mutations.throttle_ms,
        responses=[*results, *denied.values(), *(_result(key, outcome) for key, outcome in outcomes.items())],
    )


def _denied(ctx: Context, wanted: Sequence[str | UUID]) -> dict[str | UUID, Result]:
    """A client that may not describe a topic does not learn whether it exists, nor its name or id."""
    authorizer = ctx.services.authorizer
    denied: dict[str | UUID, Result] = {}
    if not authorizer.is_enabled or authorizer.allows(ctx, Operation.DELETE, Kind.CLUSTER):
        return denied
    for key in wanted:
        topic = _find(ctx, key) if isinstance(key, UUID) else None
        name = key if isinstance(key, str) else topic.name if topic is not None else None
        if name is None or authorizer.allows(ctx, Operation.DELETE, Kind.TOPIC, name):
            continue
        if isinstance(key, str):
            denied[key] = _failed(key, None, refusal(Kind.TOPIC))
        else:
            is_visible = authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, name)
            denied[key] = _failed(name if is_visible else None, key, refusal(Kind.TOPIC))
    return denied


def _find(ctx: Context, key: str | UUID) -> Topic | None:
    cluster = ctx.services.cluster
    return cluster.topic_by_id(key) if isinstance(key, UUID) else cluster.topic(key)


def _beyond_quota(ctx: Context, wanted: Sequence[str | UUID], mutations: Mutations) -> dict[str | UUID, Result]:
    refused: dict[str | UUID, Result] = {}
    for key in wanted:
        topic = _find(ctx, key)
        error = mutations.charge(len(topic.partitions)) if topic is not None else None
        if topic is not None and error is not None:
            refused[key] = _failed(topic.name, topic.id, error)
    return refused


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


HANDLER = Handler(
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    handle,
    failure,
    parts=(
        Cut("topics", "responses", key=lambda topic: (topic.name, topic.topic_id), size=20),
        Cut("topic_names", "responses", key=str, size=20),
    ),
    is_for_controller=lambda _: True,
)
