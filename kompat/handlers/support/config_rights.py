"""Rights to see or change configs: those of topics and groups by the ACLs of the resource, all others by the cluster's.

Some of kompat's configs have the broker read or write another topic: a client that sets them must itself be allowed to do that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from kompat.cluster import dead_letters
from kompat.cluster.authorizer import refusal
from kompat.cluster.queue_rules import SOURCE
from kompat.cluster.state import ResourceType
from kompat.errors import KafkaError
from kompat.handlers.support.base import Context
from kompat.security.acls import ANYTHING, CLUSTER_NAME, Kind, Operation

if TYPE_CHECKING:
    from kompat.protocol.messages import AlterConfigsRequest, CreateTopicsRequest, IncrementalAlterConfigsRequest

    Change: TypeAlias = AlterConfigsRequest.AlterConfigsResource | IncrementalAlterConfigsRequest.AlterConfigsResource
    NewTopicConfig: TypeAlias = CreateTopicsRequest.CreatableTopic.CreatableTopicConfig

USUAL_DEAD_LETTERS = "dlq.<topic>"

_OWN_RIGHTS: dict[int, Kind] = {ResourceType.TOPIC: Kind.TOPIC, ResourceType.GROUP: Kind.GROUP}


def denied(ctx: Context, operation: Operation, resource_type: int, name: str) -> KafkaError | None:
    kind = _OWN_RIGHTS.get(resource_type, Kind.CLUSTER)
    whose = CLUSTER_NAME if kind is Kind.CLUSTER else name
    return None if ctx.services.authorizer.allows(ctx, operation, kind, whose) else refusal(kind)


def change_denied(ctx: Context, requested: Change) -> KafkaError | None:
    """Of a resource in AlterConfigs or IncrementalAlterConfigs."""
    error = denied(ctx, Operation.ALTER_CONFIGS, requested.resource_type, requested.resource_name)
    if error is None and requested.resource_type == ResourceType.GROUP:
        for config in requested.configs:
            if config.name == dead_letters.SETTING and not _may_write(ctx, config.value):
                return refusal(Kind.TOPIC)
    return error


def _may_write(ctx: Context, topic: str | None) -> bool:
    if not topic or topic == USUAL_DEAD_LETTERS:
        return True
    # A name that depends on the record's topic may be that of any.
    return ctx.services.authorizer.allows(ctx, Operation.WRITE, Kind.TOPIC, ANYTHING if "<" in topic else topic)


def may_read_source(ctx: Context, configs: Iterable[NewTopicConfig]) -> bool:
    """Of a new topic, if it is to be a queue of another one's records."""
    sources = [config.value for config in configs if config.name == SOURCE and config.value]
    return all(ctx.services.authorizer.allows(ctx, Operation.READ, Kind.TOPIC, source) for source in sources)
