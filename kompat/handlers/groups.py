"""What the handlers of groups share: who is asking, and which of the partitions that they name exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import ClientInfo, TopicErrors
from kompat.handlers.base import Context
from kompat.security.acls import Kind, Operation

HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def client_of(ctx: Context) -> ClientInfo:
    # As Java prints an address without a name: that is how tools know it from Kafka.
    return ClientInfo(client_id=ctx.client_id or "", client_host=f"/{ctx.client_host}")


def check_consumer_protocol(ctx: Context) -> None:
    """An operator may have turned it off: clients then fall back, or say so."""
    if "consumer" not in ctx.services.config["group.coordinator.rebalance.protocols"]:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def check_subscription(ctx: Context, group_id: str, topics: Sequence[str] | None) -> None:
    """Who joins a group must be allowed to read with it, and to know of the topics that it names."""
    authorizer = ctx.services.authorizer
    authorizer.require(ctx, Operation.READ, Kind.GROUP, group_id)
    for name in topics or () if authorizer.is_enabled else ():
        authorizer.require(ctx, Operation.DESCRIBE, Kind.TOPIC, name)


def sees_topics(ctx: Context, names: Iterable[str]) -> bool:
    """Whether whoever asks may know of all of them."""
    authorizer = ctx.services.authorizer
    return not authorizer.is_enabled or all(
        authorizer.allows(ctx, Operation.DESCRIBE, Kind.TOPIC, name) for name in names
    )


class NamedTopic:
    """A topic as a request names it, and what there is of it."""

    __slots__ = ("_error", "asked", "existing", "topic")

    def __init__(self, ctx: Context, asked: Any, *, by_id: bool = False) -> None:
        """Whoever names it must be allowed to read it."""
        cluster = ctx.services.cluster
        self.asked = asked
        self.topic = cluster.topic_by_id(asked.topic_id) if by_id else cluster.topic(asked.name)
        self._error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if by_id and self.topic is None:
            self._error = ErrorCode.UNKNOWN_TOPIC_ID
        count = 0 if self.topic is None else len(self.topic.partitions)
        name = self.topic.name if self.topic is not None else asked.name
        if name and not ctx.services.authorizer.allows(ctx, Operation.READ, Kind.TOPIC, name):
            self._error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            count = 0
        self.existing = [each for each in asked.partitions if 0 <= each.partition_index < count]

    def judged(self, errors: Iterable[ErrorCode]) -> list[tuple[int, ErrorCode]]:
        """All its partitions as they were asked for: `errors` are those of the existing ones."""
        existing = {id(each): error for each, error in zip(self.existing, errors, strict=True)}
        return [(each.partition_index, existing.get(id(each), self._error)) for each in self.asked.partitions]


Judged = list[tuple[NamedTopic, list[tuple[int, ErrorCode]]]]


def judged(named: Sequence[NamedTopic], outcome: Sequence[TopicErrors]) -> Judged:
    """What the coordinator said of the topics that have existing partitions, and what is wrong with the others."""
    told = iter(outcome)
    return [
        (each, each.judged(error for _, error in next(told).partitions) if each.existing else each.judged(()))
        for each in named
    ]


def refused(named: Sequence[NamedTopic], code: ErrorCode) -> Judged:
    """The coordinator refused the whole request."""
    return [(each, each.judged([code] * len(each.existing))) for each in named]
