"""PushTelemetry: a client's metrics, as OpenTelemetry's MetricsData, compressed or not (KIP-714).

A push is refused that has another subscription than the newest (UNKNOWN_SUBSCRIPTION_ID), comes too early, is larger than
`telemetry.max.bytes`, or cannot be read.
"""

from __future__ import annotations

from kompat.errors import KafkaError
from kompat.handlers.get_telemetry_subscriptions import facts
from kompat.handlers.support.base import Context, Handler
from kompat.protocol.messages import PushTelemetryRequest, PushTelemetryResponse
from kompat.types import ZERO_UUID


async def handle(ctx: Context, req: PushTelemetryRequest) -> PushTelemetryResponse:
    await ctx.services.telemetry.push(
        facts(ctx, req.client_instance_id or ZERO_UUID),
        req.subscription_id,
        req.compression_type,
        req.metrics or b"",
        terminating=req.terminating,
        max_bytes=ctx.services.config["telemetry.max.bytes"],
    )
    return PushTelemetryResponse()


def failure(_: PushTelemetryRequest, error: KafkaError) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=error.code)


HANDLER = Handler(PushTelemetryRequest, PushTelemetryResponse, handle, failure)
