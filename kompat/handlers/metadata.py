"""Metadata (key 3, v0-13): brokers, topics and who leads their partitions.

Topics by name, by id (v12+; then names beside ids are ignored, as Kafka does), or all: null, or in v0 an empty list.
A topic that does not exist is created where the request and `auto.create.topics.enable` allow it, and answered ready
to use; Kafka would answer UNKNOWN_TOPIC_OR_PARTITION first and have the client ask again.
Listener errors do not occur: there is one listener.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from kompat.cluster.authorizer import refusal
from kompat.cluster.names import invalid_name
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import authorized, leadership
from kompat.handlers.addresses import brokers, controller
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.parts import Cut
from kompat.protocol.messages import MetadataRequest, MetadataResponse
from kompat.security.acls import Kind, Operation
from kompat.slices import sliced
from kompat.types import ZERO_UUID

if TYPE_CHECKING:
    from kompat.cluster.service import Topic

FIRST_VERSION_WITH_IDS = 12  # in requests; v10 has the field, but may not use it

NO_ID = (None, ZERO_UUID)
AT_ONCE = 500  # topics and partitions; more are described in slices

Described: TypeAlias = MetadataResponse.MetadataResponseTopic
PartitionDescribed: TypeAlias = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition

BrokerDescribed: TypeAlias = MetadataResponse.MetadataResponseBroker


def handle(ctx: Context, req: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    cluster = ctx.services.cluster
    if req.topics is None or (ctx.api_version == 0 and not req.topics):
        topics = list(cluster.topics())
        if len(topics) + sum(len(topic.partitions) for topic in topics) > AT_ONCE:
            return _all(ctx, req, topics)
        return _response(ctx, req, [_found(ctx, topic) for topic in topics if _is_visible(ctx, topic)])
    ids = [t.topic_id for t in req.topics if t.topic_id not in NO_ID]
    if ids and ctx.api_version >= FIRST_VERSION_WITH_IDS:
        return _response(ctx, req, [_by_id(ctx, topic_id) for topic_id in ids])
    if ids or any(t.name is None for t in req.topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "topics are asked for by name, and from v12 on by id")
    names = list(dict.fromkeys(t.name for t in req.topics))
    refused = _denied(ctx, Operation.DESCRIBE, names)
    missing = [name for name in names if cluster.topic(name) is None and name not in refused]
    if missing and req.allow_auto_topic_creation and ctx.services.config["auto.create.topics.enable"]:
        if not ctx.services.authorizer.allows(ctx, Operation.CREATE, Kind.CLUSTER):
            refused |= _denied(ctx, Operation.CREATE, missing)
        return _created(ctx, req, names, [name for name in missing if name not in refused], refused)
    return _response(ctx, req, [_by_name(ctx, name, refused) for name in names])


async def _all(ctx: Context, req: MetadataRequest, topics: list[Topic]) -> MetadataResponse:
    return _response(ctx, req, [_found(ctx, topic) async for topic in sliced(topics) if _is_visible(ctx, topic)])


def _is_visible(ctx: Context, topic: Topic) -> bool:
    return ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, topic.name)


def _denied(ctx: Context, operation: Operation, names: Iterable[str]) -> dict[str, KafkaError]:
    authorizer = ctx.services.authorizer
    if not authorizer.is_enabled:
        return {}
    return {name: refusal(Kind.TOPIC) for name in names if not authorizer.allows(ctx, operation, Kind.TOPIC, name)}


async def _created(
    ctx: Context, req: MetadataRequest, names: list[str], missing: list[str], refused: dict[str, KafkaError]
) -> MetadataResponse:
    refused |= await ctx.services.cluster.auto_create(missing)
    return _response(ctx, req, [_by_name(ctx, name, refused) for name in names])


def _response(ctx: Context, req: MetadataRequest, topics: list[Described]) -> MetadataResponse:
    if req.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == ErrorCode.NONE:
                topic.authorized_operations = authorized.operations(ctx, Kind.TOPIC, topic.name)
    listed = brokers(ctx)
    return MetadataResponse(
        brokers=[BrokerDescribed(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack) for b in listed],
        cluster_id=ctx.services.cluster.cluster_id,
        controller_id=controller(ctx, listed),
        topics=topics,
        authorized_operations=authorized.on_cluster(ctx) if req.include_cluster_authorized_operations else None,
    )


def _by_id(ctx: Context, topic_id: UUID) -> Described:
    topic = ctx.services.cluster.topic_by_id(topic_id)
    if topic is None:
        return _missing(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
    if not ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, topic.name):
        return _missing(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id)
    return _found(ctx, topic)


def _by_name(ctx: Context, name: str, refused: Mapping[str, KafkaError]) -> Described:
    if name in refused:
        return _missing(name, refused[name].code)
    topic = ctx.services.cluster.topic(name)
    if topic is not None:
        return _found(ctx, topic)
    return _missing(
        name, ErrorCode.INVALID_TOPIC_EXCEPTION if invalid_name(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def _missing(name: str | None, code: ErrorCode, topic_id: UUID = ZERO_UUID) -> Described:
    return Described(error_code=code, name=name, topic_id=topic_id, partitions=[])


def _found(ctx: Context, topic: Topic) -> Described:
    return Described(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            PartitionDescribed(
                error_code=told.error_code,
                partition_index=told.index,
                leader_id=told.leader,
                leader_epoch=told.leader_epoch,
                replica_nodes=told.replicas,
                isr_nodes=told.isr,
                offline_replicas=told.offline,
            )
            for told in leadership.describe(ctx, topic, topic.partitions)
        ],
        authorized_operations=None,
    )


def failure(req: MetadataRequest, error: KafkaError) -> MetadataResponse:
    return MetadataResponse(
        brokers=[],
        topics=[_missing(t.name or "", error.code, t.topic_id or ZERO_UUID) for t in req.topics or ()],
        error_code=error.code,
    )


API = Api(
    key=3,
    name="Metadata",
    versions=Versions(0, 13),
    request=MetadataRequest,
    response=MetadataResponse,
    handle=handle,
    failure=failure,
    parts=(Cut("topics", "topics", key=lambda topic: (topic.name, topic.topic_id)),),
    stamp=lambda services: (
        services.cluster.metadata_offset,
        services.config.version,
        services.cluster.controller,
        services.cluster.network_stamp,
    ),
)
