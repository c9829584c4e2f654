"""The listener for offsets that groups commit; tracing implements it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from kompat.errors import ErrorCode
from kompat.groups.machine.group_machine import GroupMachine
from kompat.groups.machine.messages import CommitRequest, TopicErrors


class Moved(NamedTuple):
    """A group has committed another offset."""

    group_id: str
    member_id: str | None
    topic: str
    partition: int
    before: int | None  # the previous offset; None: there was none
    offset: int


class CommitEvents(Protocol):
    @property
    def is_active(self) -> bool:
        """Whether the listener wants any events."""
        ...

    def committed(self, moved: Moved) -> None:
        """It must be quick and must never fail."""
        ...


def of_request(machine: GroupMachine, request: CommitRequest) -> list[Moved]:
    """The offsets that a commit changes, computed before it is made. Those of a transaction change when it ends."""
    return [
        Moved(
            request.group_id,
            request.member_id or None,
            topic.name,
            each.partition,
            machine.committed_offset(request.group_id, topic.name, each.partition),
            each.offset,
        )
        for topic in request.topics
        for each in topic.partitions
    ]


def of_transaction(machine: GroupMachine, producer_id: int) -> list[Moved]:
    """The offsets that the commit of a producer's transaction changes, computed before it is made."""
    return [
        Moved(group_id, None, topic, partition, machine.committed_offset(group_id, topic, partition), offset)
        for group_id, topic, partition, offset in machine.pending_offsets(producer_id)
    ]


def accepted(moved: Sequence[Moved], answers: Sequence[TopicErrors]) -> Iterator[Moved]:
    good = {
        (topic.name, partition) for topic in answers for partition, error in topic.partitions if error is ErrorCode.NONE
    }
    return (each for each in moved if (each.topic, each.partition) in good)
