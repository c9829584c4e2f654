"""ApiVersions (key 18, v0-4): which APIs in which versions, and which features, this broker has.

A client name or version that is not a plain word is refused INVALID_REQUEST (v3+). A version of ApiVersions itself
that is not served is answered in v0 with the range that is, so that any client can find a version in common.
As with Apache Kafka, clients hear of the APIs for their own metrics (KIP-714) only where somebody wants those.
v3 leaves out features whose lowest level is 0: clients of that time took them for malformed (KAFKA-17011).
"""

from __future__ import annotations

import re
from functools import cache

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import APIS, features
from kompat.handlers.base import Api, Context, Versions
from kompat.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_LEVEL_ZERO = 4
TELEMETRY = (71, 72)


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
    told = [api for api in APIS if with_telemetry or api.key not in TELEMETRY]
    return [_range(api.key, api.advertised or api.versions) for api in told]


def _range(key: int, versions: Versions) -> ApiVersionsResponse.ApiVersion:
    return ApiVersionsResponse.ApiVersion(api_key=key, min_version=versions.low, max_version=versions.high)


def failure(_: ApiVersionsRequest, error: KafkaError) -> ApiVersionsResponse:
    keys = [_range(API.key, API.versions)] if error.code is ErrorCode.UNSUPPORTED_VERSION else []
    return ApiVersionsResponse(error_code=error.code, api_keys=keys)


API = Api(
    key=18,
    name="ApiVersions",
    versions=Versions(0, 4),
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    handle=handle,
    failure=failure,
)
