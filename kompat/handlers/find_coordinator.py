"""FindCoordinator (key 10, v0-6): which broker coordinates a group, a transactional id or a share partition.

v4+ asks for many keys at once; the answer has the request's order. Share keys (v6) are `group:topic id:partition`.
"""

from __future__ import annotations

import base64
import binascii
from enum import IntEnum

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.addresses import this_broker
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.descriptions import describe
from kompat.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE = 6
NO_NODE = -1


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


def handle(ctx: Context, req: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if req.key_type not in set(KeyType):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    many = ctx.api_version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = req.coordinator_keys if many else [req.key]
    coordinators = [_coordinator(ctx, req.key_type, key) for key in keys]
    if many:
        return FindCoordinatorResponse(coordinators=coordinators)
    only = coordinators[0]
    if only.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(only.error_code))
    return FindCoordinatorResponse(
        error_code=ErrorCode.NONE, error_message="NONE", node_id=only.node_id, host=only.host, port=only.port
    )


def _coordinator(ctx: Context, key_type: int, key: str) -> FindCoordinatorResponse.Coordinator:
    if key_type == KeyType.SHARE and not (ctx.api_version >= FIRST_VERSION_WITH_SHARE and _is_share_key(key)):
        return _nobody(key, ErrorCode.INVALID_REQUEST)
    broker = this_broker(ctx)
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=ErrorCode.NONE, error_message=""
    )


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


API = Api(
    key=10,
    name="FindCoordinator",
    versions=Versions(0, 6),
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    handle=handle,
    failure=failure,
)
