"""What the handlers of groups share: the client's identity, and which topics it may describe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import ClientInfo
from kompat.handlers.support.base import Context
from kompat.security.acls import Kind, Operation

HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def client_of(ctx: Context) -> ClientInfo:
    # As Java prints an address without a name: that is how tools know it from Kafka.
    return ClientInfo(client_id=ctx.client_id or "", client_host=f"/{ctx.client_host}")


def check_consumer_protocol(ctx: Context) -> None:
    """An operator may have turned it off: clients then fall back, or report it."""
    if "consumer" not in ctx.services.config["group.coordinator.rebalance.protocols"]:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def check_subscription(ctx: Context, group_id: str, topics: Sequence[str] | None) -> None:
    """A client that joins a group must be allowed to read with it, and to describe the topics that it names."""
    authorizer = ctx.services.authorizer
    authorizer.require(ctx, Operation.READ, Kind.GROUP, group_id)
    for name in topics or () if authorizer.is_enabled else ():
        authorizer.require(ctx, Operation.DESCRIBE, Kind.TOPIC, name)


def sees_topics(ctx: Context, names: Iterable[str]) -> bool:
    """Whether the client may describe all of them."""
    authorizer = ctx.services.authorizer
    return not authorizer.is_enabled or all(
        authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, name) for name in names
    )
