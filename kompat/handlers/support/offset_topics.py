"""The topics that OffsetCommit, TxnOffsetCommit and OffsetDelete name: which partitions exist, and the error of each.

A partition that does not exist, or whose topic the client may not read, has an error of its own; the coordinator only gets the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import repeat
from typing import Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import CommittedPartition, CommittedTopic, TopicErrors
from kompat.handlers.support.base import Context
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

PartitionErrors: TypeAlias = list[tuple[int, ErrorCode]]  # of one topic, in the request's order
Commit: TypeAlias = Callable[[tuple[CommittedTopic, ...]], Awaitable[Sequence[TopicErrors]]]


class NamedPartition(Protocol):
    partition_index: int


class OffsetToCommit(NamedPartition, Protocol):
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


P = TypeVar("P", bound=NamedPartition)
C = TypeVar("C", bound=OffsetToCommit)


class RequestedTopic(Generic[P]):
    """A topic, and those of the partitions that a request names which it has."""

    __slots__ = ("_count", "_error", "_partitions", "existing", "topic")

    def __init__(self, ctx: Context, name: str, partitions: Sequence[P], topic_id: UUID | None = None) -> None:
        """`topic_id`: where the request names it by that. The client must be allowed to read it."""
        cluster = ctx.services.cluster
        self.topic = topic = cluster.topic(name) if topic_id is None else cluster.topic_by_id(topic_id)
        self._partitions = partitions
        self._count = 0 if topic is None else len(topic.partitions)
        is_unknown_id = topic is None and topic_id is not None
        self._error = ErrorCode.UNKNOWN_TOPIC_ID if is_unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = name if topic is None else topic.name
        if name and not ctx.services.authorizer.allows(ctx, Operation.READ, Kind.TOPIC, name):
            self._error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            self._count = 0
        self.existing = [each for each in partitions if self._has(each)]

    def _has(self, partition: P) -> bool:
        return 0 <= partition.partition_index < self._count

    def errors(self, of_existing: Iterable[ErrorCode]) -> PartitionErrors:
        """Of all the partitions that the request names; `of_existing`: of those that exist."""
        errors = iter(of_existing)
        return [(each.partition_index, next(errors) if self._has(each) else self._error) for each in self._partitions]


def errors_by_topic(topics: Sequence[RequestedTopic[P]], outcome: Iterable[TopicErrors]) -> list[PartitionErrors]:
    """`outcome`: what the coordinator has answered, for those of the topics that have existing partitions."""
    answers = iter(outcome)
    return [
        topic.errors(error for _, error in next(answers).partitions) if topic.existing else topic.errors(())
        for topic in topics
    ]


async def commit_existing(topics: Sequence[RequestedTopic[C]], commit: Commit) -> list[PartitionErrors]:
    """Have the coordinator `commit` the offsets of all partitions that exist; its refusal is the error of each of them."""
    existing = tuple(_to_commit(each) for each in topics if each.existing)
    try:
        return errors_by_topic(topics, await commit(existing) if existing else ())
    except KafkaError as error:
        return [topic.errors(repeat(error.code)) for topic in topics]


def _to_commit(requested: RequestedTopic[C]) -> CommittedTopic:
    topic = requested.topic
    return CommittedTopic(
        name="" if topic is None else topic.name,
        topic_id=ZERO_UUID if topic is None else topic.id,
        partitions=tuple(
            CommittedPartition(
                partition=each.partition_index,
                offset=each.committed_offset,
                leader_epoch=each.committed_leader_epoch,
                metadata=each.committed_metadata,
            )
            for each in requested.existing
        ),
    )
