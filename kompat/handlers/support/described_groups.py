"""What ConsumerGroupDescribe and ShareGroupDescribe share: groups with epochs, and members with assignments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from kompat.errors import ErrorCode
from kompat.groups.machine.messages import DescribedConsumerGroup, NamedPartitions
from kompat.handlers.support import authorized
from kompat.handlers.support.base import Context
from kompat.handlers.support.groups import HIDDEN_TOPICS, sees_topics
from kompat.security.acls import Kind, Operation
from kompat.share.groups.machine.messages import DescribedShareGroup

Described: TypeAlias = DescribedConsumerGroup | DescribedShareGroup
Look: TypeAlias = Callable[[Iterable[str]], Awaitable[Iterable[Described]]]


class Describing:
    """One request of either API: `group` is the answer's type of a group, `member` makes a member of it."""

    def __init__(self, ctx: Context, req: Any, group: Any, member: Callable[[Any], Any]) -> None:
        self._ctx = ctx
        self._req = req
        self._group = group
        self._member = member

    async def groups(self, look: Look) -> list[Any]:
        """The requested groups, in the order of the request."""
        requested = self._req.group_ids
        visible = self._ctx.services.authorizer.allowed(self._ctx, Operation.DESCRIBE, Kind.GROUP, requested)
        found = {each.group_id: each for each in await look(each for each in requested if each and each in visible)}
        return [self._answer(group_id, found.get(group_id)) for group_id in requested]

    def _answer(self, group_id: str, found: Described | None) -> Any:
        if found is None:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED if group_id else ErrorCode.INVALID_GROUP_ID
            return self._group(error_code=code, group_id=group_id)
        if not sees_topics(self._ctx, _topics(found)):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return self._group(error_code=code, error_message=HIDDEN_TOPICS, group_id=group_id)
        return self._group(
            error_code=found.error,
            error_message=found.error_message,
            group_id=group_id,
            group_state=found.state,
            group_epoch=found.group_epoch,
            assignment_epoch=found.assignment_epoch,
            assignor_name=found.assignor,
            members=[self._member(each) for each in found.members],
            authorized_operations=self._operations(found),
        )

    def _operations(self, found: Described) -> int:
        is_included = self._req.include_authorized_operations and found.error is ErrorCode.NONE
        operations = authorized.operations(self._ctx, Kind.GROUP, found.group_id) if is_included else None
        return authorized.NOT_REQUESTED if operations is None else authorized.bits(operations)


def _topics(group: Described) -> set[str]:
    """That its members want or have."""
    names: set[str] = set()
    for member in group.members:
        names.update(member.subscribed_topic_names)
        names.update(each.topic_name for each in member.assignment)
    return names


def assignment_of(kind: Any, topics: Iterable[NamedPartitions]) -> Any:
    """`kind`: the answer's type of an assignment."""
    return kind(
        topic_partitions=[
            kind.TopicPartitions(topic_id=each.topic_id, topic_name=each.topic_name, partitions=list(each.partitions))
            for each in topics
        ]
    )
