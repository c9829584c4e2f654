"""Metadata: brokers, topics and the leaders of their partitions.

Topics by name, by id (v12+; then names beside ids are ignored, as Kafka does), or all: null, or in v0 an empty list.
A topic that does not exist is created where the request and `auto.create.topics.enable` allow it, and returned ready
to use; Kafka would answer UNKNOWN_TOPIC_OR_PARTITION first and have the client retry.
Listener errors do not occur: there is one listener.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from kompat.cluster.authorizer import refusal
from kompat.cluster.names import invalid_name
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import authorized, leadership
from kompat.handlers.support.addresses import brokers, controller
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import MetadataRequest, MetadataResponse
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

if TYPE_CHECKING:
    from kompat.cluster.service import PartitionState, Topic

FIRST_VERSION_WITH_IDS = 12  # in requests; v10 has the field, but may not use it

NO_ID = (None, ZERO_UUID)
AT_ONCE = 500  # topics, or partitions of all of them; more are described in slices
AT_A_TIME = 100  # partitions

Described: TypeAlias = MetadataResponse.MetadataResponseTopic
PartitionDescribed: TypeAlias = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition

BrokerDescribed: TypeAlias = MetadataResponse.MetadataResponseBroker
Found: TypeAlias = "tuple[Described, Topic | None]"  # a topic without its partitions, which are taken from the second


def handle(ctx: Context, req: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    cluster = ctx.services.cluster
    if req.topics is None or (ctx.api_version == 0 and not req.topics):
        topics = list(cluster.topics())
        if len(topics) > AT_ONCE:
            return _all(ctx, req, topics)
        return _described(ctx, req, [_found(topic) for topic in topics if _is_visible(ctx, topic)])
    ids = [t.topic_id for t in req.topics if t.topic_id not in NO_ID]
    if ids and ctx.api_version >= FIRST_VERSION_WITH_IDS:
        return _described(ctx, req, [_by_id(ctx, topic_id) for topic_id in ids])
    names = list(dict.fromkeys(t.name for t in req.topics if t.name is not None))
    if ids or any(t.name is None for t in req.topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "topics are asked for by name, and from v12 on by id")
    refused = _denied(ctx, Operation.DESCRIBE, names)
    missing = [name for name in names if cluster.topic(name) is None and name not in refused]
    if missing and req.allow_auto_topic_creation and ctx.services.config["auto.create.topics.enable"]:
        if not ctx.services.authorizer.allows(ctx, Operation.CREATE, Kind.CLUSTER):
            refused |= _denied(ctx, Operation.CREATE, missing)
        return _created(ctx, req, names, [name for name in missing if name not in refused], refused)
    return _described(ctx, req, [_by_name(ctx, name, refused) for name in names])


async def _all(ctx: Context, req: MetadataRequest, topics: list[Topic]) -> MetadataResponse:
    visible = [_found(topic) async for topic in sliced(topics) if _is_visible(ctx, topic)]
    return await _in_slices(ctx, req, visible)


def _described(
    ctx: Context, req: MetadataRequest, found: list[Found]
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """With all partitions of the topics."""
    if sum(len(topic.partitions) for _, topic in found if topic is not None) > AT_ONCE:
        return _in_slices(ctx, req, found)
    for described, topic in found:
        if topic is not None:
            described.partitions = _partitions(ctx, topic, topic.partitions)
    return _response(ctx, req, [described for described, _ in found])


async def _in_slices(ctx: Context, req: MetadataRequest, found: list[Found]) -> MetadataResponse:
    async for described, topic in sliced(found):
        if topic is not None:
            async for first in sliced(range(0, len(topic.partitions), AT_A_TIME)):
                described.partitions += _partitions(ctx, topic, topic.partitions[first : first + AT_A_TIME])
    return _response(ctx, req, [described for described, _ in found])


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
    return await _in_slices(ctx, req, [_by_name(ctx, name, refused) for name in names])


def _response(ctx: Context, req: MetadataRequest, topics: list[Described]) -> MetadataResponse:
    if req.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == ErrorCode.NONE and topic.name is not None:
                topic.authorized_operations = authorized.operations(ctx, Kind.TOPIC, topic.name)
    listed = brokers(ctx)
    return MetadataResponse(
        brokers=[BrokerDescribed(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack) for b in listed],
        cluster_id=ctx.services.cluster.cluster_id,
        controller_id=controller(ctx, listed),
        topics=topics,
        authorized_operations=authorized.on_cluster(ctx) if req.include_cluster_authorized_operations else None,
    )


def _by_id(ctx: Context, topic_id: UUID) -> Found:
    topic = ctx.services.cluster.topic_by_id(topic_id)
    if topic is None:
        return _missing(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
    if not ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, topic.name):
        return _missing(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id)
    return _found(topic)


def _by_name(ctx: Context, name: str, refused: Mapping[str, KafkaError]) -> Found:
    if name in refused:
        return _missing(name, refused[name].code)
    topic = ctx.services.cluster.topic(name)
    if topic is not None:
        return _found(topic)
    return _missing(
        name, ErrorCode.INVALID_TOPIC_EXCEPTION if invalid_name(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def _missing(name: str | None, code: ErrorCode, topic_id: UUID = ZERO_UUID) -> Found:
    return Described(error_code=code, name=name, topic_id=topic_id, partitions=[]), None


def _found(topic: Topic) -> Found:
    described = Described(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[],
        authorized_operations=None,
    )
    return described, topic


def _partitions(ctx: Context, topic: Topic, some: Iterable[PartitionState]) -> list[PartitionDescribed]:
    return [
        PartitionDescribed(
            error_code=each.error_code,
            partition_index=each.index,
            leader_id=each.leader,
            leader_epoch=each.leader_epoch,
            replica_nodes=each.replicas,
            isr_nodes=each.isr,
            offline_replicas=each.offline,
        )
        for each in leadership.describe(ctx, topic, some)
    ]


def failure(req: MetadataRequest, error: KafkaError) -> MetadataResponse:
    return MetadataResponse(
        brokers=[],
        topics=[_missing(t.name or "", error.code, t.topic_id or ZERO_UUID)[0] for t in req.topics or ()],
        error_code=error.code,
    )


HANDLER = Handler(
    MetadataRequest,
    MetadataResponse,
    handle,
    failure,
    parts=(Cut("topics", "topics", key=lambda topic: (topic.name, topic.topic_id)),),
    stamp=lambda services: (
        services.cluster.metadata_offset,
        services.config.version,
        services.cluster.controller,
        services.cluster.network_stamp,
    ),
)
