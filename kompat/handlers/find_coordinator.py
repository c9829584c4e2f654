"""FindCoordinator: which broker coordinates a group, a transactional id or a share partition.

v4+ has many keys; the response has their order. Share keys (v6) are `group:topic id:partition`. The coordinator is the broker
that leads the key's partition of an internal topic.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from enum import IntEnum

from kompat.cluster.authorizer import refusal
from kompat.cluster.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kompat.coordination.shards import partition_for
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.addresses import Endpoint, endpoint_of
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from kompat.security.acls import Kind, Operation
from kompat.types import LogId

FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE = 6
NO_NODE = -1
WAIT_SECONDS = 2.0  # for a new topic's partitions to have leaders


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


COORDINATOR_TOPICS = {
    KeyType.GROUP: CONSUMER_OFFSETS,
    KeyType.TRANSACTION: TRANSACTION_STATE,
    KeyType.SHARE: SHARE_GROUP_STATE,
}
RESOURCES = {KeyType.GROUP: Kind.GROUP, KeyType.TRANSACTION: Kind.TRANSACTIONAL_ID}


async def handle(ctx: Context, req: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if req.key_type not in set(KeyType):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if req.key_type == KeyType.SHARE:
        ctx.services.authorizer.require(ctx, Operation.CLUSTER_ACTION, Kind.CLUSTER)
    many = ctx.api_version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = req.coordinator_keys if many else [req.key]
    # All at once: each may have to wait for an election.
    coordinators = await asyncio.gather(*(_coordinator(ctx, req.key_type, key) for key in keys))
    if many:
        return FindCoordinatorResponse(coordinators=list(coordinators))
    only = coordinators[0]
    if only.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(only.error_code))
    return FindCoordinatorResponse(
        error_code=ErrorCode.NONE, error_message="NONE", node_id=only.node_id, host=only.host, port=only.port
    )


async def _coordinator(ctx: Context, key_type: int, key: str) -> FindCoordinatorResponse.Coordinator:
    if key_type == KeyType.SHARE and not (ctx.api_version >= FIRST_VERSION_WITH_SHARE and _is_share_key(key)):
        return _nobody(key, ErrorCode.INVALID_REQUEST)
    kind = RESOURCES.get(KeyType(key_type))
    if kind is not None and not ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, kind, key):
        error = refusal(kind)
        return _nobody(key, error.code, describe(error))
    broker = await _leader(ctx, KeyType(key_type), key)
    if broker is None:
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=ErrorCode.NONE, error_message=""
    )


async def _leader(ctx: Context, key_type: KeyType, key: str) -> Endpoint | None:
    cluster = ctx.services.cluster
    try:
        topic = await cluster.ensure_internal_topic(COORDINATOR_TOPICS[key_type])
    except KafkaError:  # too few brokers, or no controller
        return None
    coordinated = LogId(topic.id, partition_for(key, len(topic.partitions)))
    await cluster.local.network.until(lambda: cluster.local.leader(coordinated) is not None, WAIT_SECONDS)
    leader = cluster.local.leader(coordinated)
    return endpoint_of(ctx, leader) if leader is not None else None


def _nobody(key: str, code: ErrorCode, message: str = "") -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=code, error_message=message
    )


def _is_share_key(key: str) -> bool:
    group, topic_id, partition = (*key.rsplit(":", 2), "", "")[:3]
    if not group or not partition.isascii() or not partition.isdigit():
        return False
    try:
        return len(base64.b64decode(topic_id + "==", altchars=b"-_", validate=True)) == 16
    except binascii.Error:
        return False


def failure(req: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    message = describe(error)
    return FindCoordinatorResponse(
        error_code=error.code,
        error_message=message,
        node_id=NO_NODE,
        host="",
        port=NO_NODE,
        coordinators=[_nobody(key, error.code, message) for key in req.coordinator_keys],
    )


HANDLER = Handler(
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    handle,
    failure,
    parts=(Cut("coordinator_keys", "coordinators"),),
)
