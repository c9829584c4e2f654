"""CreatePartitions: add partitions to topics, or with `validate_only` only check that."""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.authorizer import refusal
from kompat.cluster.requests import MorePartitions
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.mutations import Mutations
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse
from kompat.security.acls import Kind, Operation

FIRST_STRICT_VERSION = 3  # by quotas

Requested: TypeAlias = CreatePartitionsRequest.CreatePartitionsTopic
Result: TypeAlias = CreatePartitionsResponse.CreatePartitionsTopicResult


async def handle(ctx: Context, req: CreatePartitionsRequest) -> CreatePartitionsResponse:
    allowed = ctx.services.authorizer.allowed(ctx, Operation.ALTER, Kind.TOPIC, (t.name for t in req.topics))
    outcomes: dict[str, KafkaError | None] = {t.name: refusal(Kind.TOPIC) for t in req.topics if t.name not in allowed}
    wanted = [_wanted(topic) for topic in req.topics if topic.name in allowed]
    mutations = Mutations(ctx, FIRST_STRICT_VERSION)
    if mutations.is_counted:
        outcomes |= await _beyond_quota(ctx, wanted, mutations)
        wanted = [more for more in wanted if more.name not in outcomes]
    outcomes |= await ctx.services.cluster.create_partitions(wanted, validate_only=req.validate_only)
    return CreatePartitionsResponse(
        throttle_time_ms=mutations.throttle_ms,
        results=[
            Result(name=name, error_code=ErrorCode.NONE, error_message=None)
            if error is None
            # Unlike in other APIs, Kafka sends no default message for the error code here.
            else Result(name=name, error_code=error.code, error_message=error.message or None)
            for name, error in outcomes.items()
        ],
    )


async def _beyond_quota(ctx: Context, wanted: list[MorePartitions], mutations: Mutations) -> dict[str, KafkaError]:
    """The errors of topics whose new partitions exceed the quota."""
    cluster = ctx.services.cluster
    counts = {more.name: more.count for more in wanted}
    refused = {}
    for name, wrong in (await cluster.create_partitions(wanted, validate_only=True)).items():
        topic = cluster.topic(name)
        error = mutations.charge(counts[name] - len(topic.partitions)) if topic is not None and wrong is None else None
        if error is not None:
            refused[name] = error
    return refused


def _wanted(topic: Requested) -> MorePartitions:
    chosen = None if topic.assignments is None else [a.broker_ids for a in topic.assignments]
    return MorePartitions(topic.name, topic.count, chosen)


def failure(req: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[Result(name=t.name, error_code=error.code, error_message=describe(error)) for t in req.topics]
    )


HANDLER = Handler(
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    handle,
    failure,
    parts=(Cut("topics", "results", key=lambda topic: topic.name, size=20),),
    is_for_controller=lambda _: True,
)
