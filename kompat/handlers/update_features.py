"""UpdateFeatures: raise or lower the level of features, all of a request or none.

Every feature is at its highest level, so an update to that succeeds at once. Not implemented: lowering a level.
The answer has an entry for each feature in v0 and v1, and only where all succeed, as in Kafka.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support import features
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.descriptions import describe
from kompat.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from kompat.security.acls import Kind, Operation

FAILED = "The update failed for all features since the following feature had an error: "


def handle(ctx: Context, req: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    ctx.services.authorizer.require(ctx, Operation.ALTER, Kind.CLUSTER)
    for update in req.feature_updates:
        # v0 had a flag in place of the kind of update.
        kind = features.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
        try:
            features.check_update(ctx.services.node_id, update.feature, update.max_version_level, kind)
        except KafkaError as error:
            raise KafkaError(error.code, FAILED + error.message) from None
    return UpdateFeaturesResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[
            UpdateFeaturesResponse.UpdatableFeatureResult(
                feature=update.feature, error_code=ErrorCode.NONE, error_message="NONE"
            )
            for update in req.feature_updates
        ],
    )


def failure(_: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error.code, error_message=describe(error), results=[])


HANDLER = Handler(UpdateFeaturesRequest, UpdateFeaturesResponse, handle, failure)
