"""ConsumerGroupHeartbeat: join, leave and follow a group whose partitions the broker assigns (KIP-848).

Null fields mean "as before". Epoch 0 joins, -1 leaves, -2 leaves for a while (static members). v1 has the member choose
its id and may subscribe by a regular expression: it matches the topics that the member may describe.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TypeAlias
from uuid import uuid4

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import ConsumerHeartbeatRequest
from kompat.groups.records import EpochsByPartition
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.groups import check_consumer_protocol, check_subscription, client_of
from kompat.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

Assignment: TypeAlias = ConsumerGroupHeartbeatResponse.Assignment


async def handle(ctx: Context, req: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    check_consumer_protocol(ctx)
    check_subscription(ctx, req.group_id, req.subscribed_topic_names)
    topics, owned = req.subscribed_topic_names, req.topic_partitions
    reply = await ctx.services.groups.consumer_heartbeat(
        ConsumerHeartbeatRequest(
            group_id=req.group_id,
            member_id=req.member_id,
            member_epoch=req.member_epoch,
            instance_id=req.instance_id,
            rack_id=req.rack_id,
            rebalance_timeout_ms=req.rebalance_timeout_ms,
            subscribed_topic_names=None if topics is None else tuple(topics),
            subscribed_topic_regex=req.subscribed_topic_regex,
            server_assignor=req.server_assignor,
            topic_partitions=None
            if owned is None
            else {each.topic_id or ZERO_UUID: tuple(each.partitions) for each in owned},
            client=client_of(ctx),
            api_version=ctx.api_version,
            fresh_id=_fresh_id(),
            may_see=_visible(ctx) if ctx.services.authorizer.is_enabled else None,
        )
    )
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None if reply.assignment is None else _assignment(reply.assignment),
    )


def _visible(ctx: Context) -> Callable[[str], bool]:
    return lambda name: ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, name)


def _fresh_id() -> str:
    """As Kafka writes its ids, which clients may parse."""
    return base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")


def _assignment(assigned: EpochsByPartition) -> Assignment:
    return Assignment(
        topic_partitions=[
            Assignment.TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


def failure(_: ConsumerGroupHeartbeatRequest, error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


HANDLER = Handler(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, handle, failure)
