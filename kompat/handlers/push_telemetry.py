"""PushTelemetry (key 72, v0): a client's metrics, as OpenTelemetry's MetricsData, compressed or not (KIP-714).

Refused are pushes of another subscription than the newest (UNKNOWN_SUBSCRIPTION_ID: ask again), those that come too early, are
larger than `telemetry.max.bytes`, or cannot be read.
"""

from __future__ import annotations

from kompat.errors import KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.get_telemetry_subscriptions import facts
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


API = Api(
    key=72,
    name="PushTelemetry",
    versions=Versions(0, 0),
    request=PushTelemetryRequest,
    response=PushTelemetryResponse,
    handle=handle,
    failure=failure,
)
