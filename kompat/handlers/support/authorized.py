"""Authorized operations: what a client may do with a resource. Without an authorizer that is everything.

Bits are Kafka's AclOperation numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kompat.handlers.support.base import Context
from kompat.security.acls import CLUSTER_NAME, Kind, Operation

_GROUP = (Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
# What can be done with each kind of resource.
OPERATIONS: Mapping[Kind, frozenset[Operation]] = {
    Kind.TOPIC: frozenset({*_GROUP, Operation.WRITE, Operation.CREATE, Operation.ALTER}),
    Kind.GROUP: frozenset(_GROUP),
    Kind.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        }
    ),
}
NOT_REQUESTED = -(2**31)


def operations(ctx: Context, kind: Kind, name: str = CLUSTER_NAME) -> frozenset[Operation]:
    """All operations that the client may do with a resource."""
    authorizer = ctx.services.authorizer
    if not authorizer.is_enabled:
        return OPERATIONS[kind]
    return frozenset(each for each in OPERATIONS[kind] if authorizer.allows(ctx, each, kind, name))


def on_cluster(ctx: Context) -> frozenset[Operation]:
    """None, where the client may not even describe the resource."""
    if not ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.CLUSTER):
        return frozenset()
    return operations(ctx, Kind.CLUSTER)


def bits(allowed: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in allowed)
