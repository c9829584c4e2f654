"""Who may see or change settings: those of topics and groups by their own rights, all others by the cluster's."""

from __future__ import annotations

from kompat.cluster.authorizer import refusal
from kompat.cluster.state import ResourceType
from kompat.errors import KafkaError
from kompat.handlers.base import Context
from kompat.security.acls import CLUSTER_NAME, Kind, Operation


def denied(ctx: Context, operation: Operation, resource_type: int, name: str) -> KafkaError | None:
    kind = {ResourceType.TOPIC: Kind.TOPIC, ResourceType.GROUP: Kind.GROUP}.get(resource_type, Kind.CLUSTER)  # type: ignore[call-overload]
    whose = CLUSTER_NAME if kind is Kind.CLUSTER else name
    return None if ctx.services.authorizer.allows(ctx, operation, kind, whose) else refusal(kind)
