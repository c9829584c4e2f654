"""What a client may read: consumers the topics that ACLs let them read, followers (which kompat has none of) all or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context
from kompat.handlers.support.fetch_sessions import Wanted
from kompat.log.partition import Partition
from kompat.protocol.fetch import FetchRequest
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

Found = Partition | KafkaError


def allowed(ctx: Context, req: FetchRequest, wanted: Sequence[Wanted], found: Sequence[Found]) -> list[Found]:
    """What was found, but a refusal in the place of whatever the client may not read."""
    return [
        each if _may_read(ctx, req, requested) else KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for requested, each in zip(wanted, found, strict=True)
    ]


def _may_read(ctx: Context, req: FetchRequest, wanted: Wanted) -> bool:
    authorizer = ctx.services.authorizer
    if req.replica_id >= 0:
        return authorizer.allows(ctx, Operation.CLUSTER_ACTION, Kind.CLUSTER)
    if wanted.topic_id == ZERO_UUID:
        return authorizer.allows(ctx, Operation.READ, Kind.TOPIC, wanted.topic)
    known = ctx.services.cluster.topic_by_id(wanted.topic_id)
    return known is None or authorizer.allows(ctx, Operation.READ, Kind.TOPIC, known.name)
