"""ApiVersions: which APIs in which versions, and which features, this broker has.

A client name or version that is not a plain word is refused INVALID_REQUEST (v3+). A version of ApiVersions itself
that is not served is answered in v0 with the range that is, so that any client can find a version in common.
As in Apache Kafka, the APIs for client metrics (KIP-714) are advertised only where there is a subscription.
v3 leaves out features whose lowest level is 0: clients of that time took them for malformed (KAFKA-17011).
"""

from __future__ import annotations

import re
from functools import cache

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import APIS, BY_KEY
from kompat.handlers.support import features
from kompat.handlers.support.base import Context, Handler, Versions
from kompat.protocol.api_keys import ApiKey
from kompat.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_LEVEL_ZERO = 4
TELEMETRY = (ApiKey.GetTelemetrySubscriptions, ApiKey.PushTelemetry)


def handle(ctx: Context, req: ApiVersionsRequest) -> ApiVersionsResponse:
    if ctx.api_version >= FIRST_VERSION_WITH_SOFTWARE and not (
        SOFTWARE.fullmatch(req.client_software_name) and SOFTWARE.fullmatch(req.client_software_version)
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    ctx.services.telemetry.greeted(ctx.connection_id, req.client_software_name, req.client_software_version)
    lowest = 0 if ctx.api_version >= FIRST_VERSION_WITH_LEVEL_ZERO else 1
    supported = features.supported()
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=_served(with_telemetry=ctx.services.telemetry.is_wanted),
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=f.name, min_version=f.low, max_version=f.high)
            for f in supported
            if f.low >= lowest
        ],
        finalized_features_epoch=ctx.services.cluster.metadata_offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=f.name, min_version_level=f.high, max_version_level=f.high)
            for f in supported
        ],
    )


@cache
def _served(*, with_telemetry: bool) -> list[ApiVersionsResponse.ApiVersion]:
    return [_range(api.key, api.advertised) for api in APIS if with_telemetry or api.key not in TELEMETRY]


def _range(key: ApiKey, versions: Versions) -> ApiVersionsResponse.ApiVersion:
    return ApiVersionsResponse.ApiVersion(api_key=key, min_version=versions.low, max_version=versions.high)


def failure(_: ApiVersionsRequest, error: KafkaError) -> ApiVersionsResponse:
    own = BY_KEY[ApiKey.ApiVersions]
    keys = [_range(own.key, own.versions)] if error.code is ErrorCode.UNSUPPORTED_VERSION else []
    return ApiVersionsResponse(error_code=error.code, api_keys=keys)


HANDLER = Handler(ApiVersionsRequest, ApiVersionsResponse, handle, failure)
