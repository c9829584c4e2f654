"""CreateTopics: create topics, or with `validate_only` only check that.

Each topic succeeds or fails by itself. v5+ returns the topic's partitions, replication factor and configs; v7+ its id.
A name that the request has twice is INVALID_REQUEST, and answered once.
"""

from __future__ import annotations

from typing import TypeAlias

from kompat.cluster.requests import NewTopic
from kompat.cluster.state import Topic
from kompat.common.slices import Slice
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.config_rights import may_read_source
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.mutations import Mutations
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from kompat.security.acls import Kind, Operation

FIRST_VERSION_WITH_CONFIGS = 5
FIRST_STRICT_VERSION = 6  # by quotas
PARTITIONS_AT_A_TIME = 100
PLANNED_AFTER = 0.001  # seconds of a turn; what has had more plans in the next

Requested: TypeAlias = CreateTopicsRequest.CreatableTopic
Result: TypeAlias = CreateTopicsResponse.CreatableTopicResult
Setting: TypeAlias = CreateTopicsResponse.CreatableTopicResult.CreatableTopicConfigs


async def handle(ctx: Context, req: CreateTopicsRequest) -> CreateTopicsResponse:
    denied = _denied(ctx, req.topics)
    outcomes: dict[str, Topic | KafkaError] = dict(denied)
    turn = Slice(PLANNED_AFTER)  # to plan a large topic takes most of a turn
    wanted = [_wanted(topic) for topic in req.topics if topic.name not in denied]
    mutations = Mutations(ctx, FIRST_STRICT_VERSION)
    if mutations.is_counted:
        outcomes |= await _beyond_quota(ctx, wanted, mutations)
        wanted = [new for new in wanted if new.name not in outcomes]
    for some in _at_a_time(wanted):
        if turn.is_over:
            await turn.pause()
        outcomes |= await ctx.services.cluster.create_topics(some, validate_only=req.validate_only)
    settings = _Settings(ctx)
    return CreateTopicsResponse(
        throttle_time_ms=mutations.throttle_ms,
        topics=[
            _failed(name, outcome) if isinstance(outcome, KafkaError) else _created(ctx, outcome, settings)
            for name, outcome in outcomes.items()
        ],
    )


def _at_a_time(wanted: list[NewTopic]) -> list[list[NewTopic]]:
    """Topics whose logs are opened in one go; names that come twice have to be seen together."""
    if len({new.name for new in wanted}) < len(wanted):
        return [wanted]
    groups: list[list[NewTopic]] = [[]]
    partitions = 0
    for new in wanted:
        partitions += max(1, new.num_partitions, len(new.assignments))
        if groups[-1] and partitions > PARTITIONS_AT_A_TIME:
            groups.append([])
            partitions = max(1, new.num_partitions, len(new.assignments))
        groups[-1].append(new)
    return groups


def _denied(ctx: Context, topics: list[Requested]) -> dict[str, KafkaError]:
    authorizer = ctx.services.authorizer
    if not authorizer.is_enabled:
        return {}
    may_create_any = authorizer.allows(ctx, Operation.CREATE, Kind.CLUSTER)
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    return {
        topic.name: error
        for topic in topics
        if not (may_create_any or authorizer.allows(ctx, Operation.CREATE, Kind.TOPIC, topic.name))
        or not may_read_source(ctx, topic.configs)
    }


async def _beyond_quota(ctx: Context, wanted: list[NewTopic], mutations: Mutations) -> dict[str, KafkaError]:
    """What could be created, but is too much."""
    refused = {}
    for name, outcome in (await ctx.services.cluster.create_topics(wanted, validate_only=True)).items():
        error = mutations.charge(len(outcome.partitions)) if isinstance(outcome, Topic) else None
        if error is not None:
            refused[name] = error
    return refused


class _Settings:
    """The settings of new topics. Those with the same settings of their own, mostly none, share the work."""

    def __init__(self, ctx: Context) -> None:
        self._cluster = ctx.services.cluster
        self._wanted = ctx.api_version >= FIRST_VERSION_WITH_CONFIGS
        self._known: dict[tuple[tuple[str, str], ...], list[Setting]] = {}

    def of(self, topic: Topic) -> list[Setting]:
        if not self._wanted:
            return []
        own = tuple(sorted(topic.configs.items()))
        if own not in self._known:
            self._known[own] = [
                Setting(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.is_read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in self._cluster.describe_configs_of(topic)
            ]
        return self._known[own]


def _wanted(topic: Requested) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(a.partition_index, a.broker_ids) for a in topic.assignments],
        {c.name: c.value for c in topic.configs},
    )


def _created(ctx: Context, topic: Topic, settings: _Settings) -> Result:
    if not ctx.services.authorizer.allows(ctx, Operation.DESCRIBE_CONFIGS, Kind.TOPIC, topic.name):
        hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return Result(
            name=topic.name, topic_id=topic.id, error_message=None, topic_config_error_code=hidden, configs=[]
        )
    return Result(
        name=topic.name,
        topic_id=topic.id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        configs=settings.of(topic),
    )


def _failed(name: str, error: KafkaError) -> Result:
    return Result(name=name, error_code=error.code, error_message=describe(error), configs=[])


def failure(req: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_failed(topic.name, error) for topic in req.topics])


HANDLER = Handler(
    CreateTopicsRequest,
    CreateTopicsResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics", key=lambda topic: topic.name, size=20),),
    is_for_controller=lambda _: True,
)
