"""Who is told how far groups have come: nobody, unless somebody from above wants to know."""

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
    before: int | None  # where it stood; None: nowhere
    offset: int


class CommitEvents(Protocol):
    @property
    def is_active(self) -> bool:
        """Does it want to know anything at all?"""
        ...

    def committed(self, moved: Moved) -> None:
        """It must be quick, and never fail."""
        ...


def of_request(machine: GroupMachine, request: CommitRequest) -> list[Moved]:
    """What a commit moves, before it is made. Not that of a transaction: its offsets move when it ends."""
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
    """What the commit of a producer's transaction moves, before it is made."""
    return [
        Moved(group_id, None, topic, partition, machine.committed_offset(group_id, topic, partition), offset)
        for group_id, topic, partition, offset in machine.pending_offsets(producer_id)
    ]


def accepted(moved: Sequence[Moved], answers: Sequence[TopicErrors]) -> Iterator[Moved]:
    good = {
        (topic.name, partition) for topic in answers for partition, error in topic.partitions if error is ErrorCode.NONE
    }
    return (each for each in moved if (each.topic, each.partition) in good)
