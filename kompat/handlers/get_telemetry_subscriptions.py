"""GetTelemetrySubscriptions: which of its metrics a client is to push, and how often (KIP-714).

A client without an id gets one. Where it has no subscription, the list of metrics is empty, and the client requests it
again after the interval. A request before that gets THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from uuid import UUID, uuid4

from kompat.errors import KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.protocol.messages import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from kompat.telemetry.service import ACCEPTED
from kompat.telemetry.subscriptions import ClientFacts
from kompat.types import ZERO_UUID


def handle(ctx: Context, req: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
    instance_id = req.client_instance_id or ZERO_UUID
    if instance_id == ZERO_UUID:
        instance_id = uuid4()
    wanted = ctx.services.telemetry.ask(facts(ctx, instance_id))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=wanted.id_for(instance_id),
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=ctx.services.config["telemetry.max.bytes"],
        delta_temporality=False,  # so that a push that is lost takes nothing with it
        requested_metrics=list(wanted.metrics),
    )


def facts(ctx: Context, instance_id: UUID) -> ClientFacts:
    """The properties of the client that subscriptions match."""
    name, version = ctx.services.telemetry.software(ctx.connection_id)
    return ClientFacts(
        instance_id=instance_id,
        client_id=ctx.client_id or "",
        software_name=name,
        software_version=version,
        address=ctx.client_host,
        port=ctx.connection_id.rpartition(":")[2],
    )


def failure(_: GetTelemetrySubscriptionsRequest, error: KafkaError) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(error_code=error.code)


HANDLER = Handler(GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, handle, failure)
