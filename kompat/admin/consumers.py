"""Consumers that use HTTP: members of a consumer group, whose heartbeats are sent with their requests.

A group's coordinator has its members and their assignments. This broker only caches the group, the epoch and the assignment of a
member, to save requests: any broker can serve any consumer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kompat.admin import groups
from kompat.admin.problems import check, missing
from kompat.admin.route import Call
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.services import Services
from kompat.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from kompat.security.acls import Kind, Operation

JOIN: Final = 0
REBALANCE_MS: Final = 60_000
MOST_REMEMBERED: Final = 10_000
MOST_GROUPS: Final = 1000  # that are searched for a consumer that is not cached
ROUNDS: Final = 4  # heartbeats until a new assignment is reconciled
LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH)

Assigned = dict[str, list[int]]  # partitions by topic
Whose = tuple[str, str]  # a user and the id of the consumer: other users may have consumers with the same id


@dataclass(slots=True)
class Consumer:
    id: str
    group: str
    topics: list[str]
    epoch: int = JOIN
    assigned: Assigned = field(default_factory=dict)
    turn: int = 0  # the partition that is read first next time

    def has(self, topic: str, partition: int) -> bool:
        return partition in self.assigned.get(topic, ())

    @property
    def partitions(self) -> list[tuple[str, int]]:
        return [(topic, partition) for topic, each in sorted(self.assigned.items()) for partition in sorted(each)]


class Consumers:
    """The consumers that have recently used this broker."""

    def __init__(self, _: Services) -> None:
        self._known: dict[Whose, Consumer] = {}
        self._locks: dict[Whose, asyncio.Lock] = {}

    def turn_of(self, call: Call, consumer_id: str) -> asyncio.Lock:
        """The lock of a consumer: it has one request at a time."""
        if len(self._locks) > MOST_REMEMBERED:
            self._locks = {name: lock for name, lock in self._locks.items() if lock.locked()}
        return self._locks.setdefault((call.principal, consumer_id), asyncio.Lock())

    # -- members ---------------------------------------------------------------------------------------------------
    async def connect(self, call: Call, consumer_id: str, group: str, topics: list[str]) -> Consumer:
        """Join the group, or change the subscription of a member."""
        consumer = await _described(call, consumer_id, group) or Consumer(consumer_id, group, topics)
        consumer.topics = topics
        await self._beat(call, consumer, topics)
        self._remember(call, consumer)
        return consumer

    async def alive(self, call: Call, consumer_id: str) -> Consumer:
        """The consumer, after a heartbeat. Raises a problem if it is not a member of any group."""
        whose = call.principal, consumer_id
        consumer = self._known.get(whose)
        if consumer is not None:
            try:
                await self._beat(call, consumer)
            except KafkaError as error:
                if error.code not in LOST:
                    raise
                self._known.pop(whose, None)  # another broker has served it meanwhile, or its session has expired
            else:
                return consumer
        consumer = await self._look_for(call, consumer_id)
        await self._beat(call, consumer)
        self._remember(call, consumer)
        return consumer

    def _remember(self, call: Call, consumer: Consumer) -> None:
        whose = call.principal, consumer.id
        self._known.pop(whose, None)
        self._known[whose] = consumer
        if len(self._known) > MOST_REMEMBERED:
            del self._known[next(iter(self._known))]

    async def _look_for(self, call: Call, consumer_id: str) -> Consumer:
        listed = [group.name for group in await groups.list_groups(call, ["consumer"], [])]
        # A user who may only describe a group is not its member, even if a member has the same id.
        own = call.services.authorizer.allowed(call.caller, Operation.READ, Kind.GROUP, listed)
        for group in sorted(own)[:MOST_GROUPS]:
            consumer = await _described(call, consumer_id, group)
            if consumer is not None:
                return consumer
        raise missing(f"Consumer {consumer_id} does not exist. POST /connect makes it a member of a group.")

    async def _beat(self, call: Call, consumer: Consumer, topics: list[str] | None = None) -> None:
        """Send heartbeats until the assignment is reconciled. Revoked partitions are given up at once, because nothing is in progress."""
        owned: Mapping[str, Sequence[int]] | None = {} if consumer.epoch == JOIN else None
        for _ in range(ROUNDS):
            response = await _heartbeat(call, consumer, topics, owned)
            consumer.epoch, topics = response.member_epoch, None
            if response.assignment is None:
                return
            assigned = _named(call, response.assignment.topic_partitions)
            is_news = assigned != consumer.assigned
            consumer.assigned = owned = assigned
            if not is_news:
                return

    # -- offsets ---------------------------------------------------------------------------------------------------
    async def position(self, call: Call, consumer: Consumer, topic: str, partition: int) -> int:
        """The committed offset of the group; 0 if there is none."""
        kind = OffsetFetchRequest.OffsetFetchRequestGroup
        wanted = kind.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
        request = OffsetFetchRequest(
            groups=[kind(group_id=consumer.group, member_id=consumer.id, member_epoch=consumer.epoch, topics=[wanted])]
        )
        to = await call.requests.to_coordinator(consumer.group)
        [answer] = (await call.send(request, to=to, version=groups.WITH_NAMES)).groups
        check(answer.error_code)
        [found] = answer.topics[0].partitions
        check(found.error_code)
        return max(0, int(found.committed_offset))

    async def commit(self, call: Call, consumer: Consumer, topic: str, partition: int, offset: int) -> None:
        kind = OffsetCommitRequest.OffsetCommitRequestTopic
        place = kind.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=consumer.group,
            generation_id_or_member_epoch=consumer.epoch,
            member_id=consumer.id,
            topics=[kind(name=topic, partitions=[place])],
        )
        to = await call.requests.to_coordinator(consumer.group)
        response = await call.send(request, to=to, version=groups.WITH_NAMES)
        check(response.topics[0].partitions[0].error_code)


async def _heartbeat(
    call: Call, consumer: Consumer, topics: list[str] | None, owned: Mapping[str, Sequence[int]] | None
) -> Any:
    kind = ConsumerGroupHeartbeatRequest.TopicPartitions
    cluster = call.services.cluster
    request = ConsumerGroupHeartbeatRequest(
        group_id=consumer.group,
        member_id=consumer.id,
        member_epoch=consumer.epoch,
        rebalance_timeout_ms=REBALANCE_MS if consumer.epoch == JOIN else -1,
        subscribed_topic_names=consumer.topics if consumer.epoch == JOIN else topics,
        topic_partitions=None
        if owned is None
        else [
            kind(topic_id=known.id, partitions=list(partitions))
            for topic, partitions in owned.items()
            if (known := cluster.topic(topic)) is not None
        ],
    )
    response = await call.send(request, to=await call.requests.to_coordinator(consumer.group))
    check(response.error_code, response.error_message)
    return response


def _named(call: Call, assigned: Sequence[Any]) -> Assigned:
    found = {}
    for each in assigned:
        topic = call.services.cluster.topic_by_id(each.topic_id)
        if topic is not None and each.partitions:
            found[topic.name] = sorted(each.partitions)
    return found


async def _described(call: Call, consumer_id: str, group: str) -> Consumer | None:
    """A member, from the description of its coordinator."""
    member = (await members_of(call, group)).get(consumer_id)
    if member is None:
        return None
    assigned = {each.topic_name: sorted(each.partitions) for each in member.assignment.topic_partitions}
    return Consumer(consumer_id, group, list(member.subscribed_topic_names), member.member_epoch, assigned)


async def members_of(call: Call, group: str) -> dict[str, Any]:
    """The members by id; none if the group does not exist, or is of another type."""
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    [described] = (await call.send(request, to=await call.requests.to_coordinator(group))).groups
    if described.error_code in (*groups.NONE_SUCH, ErrorCode.UNKNOWN_MEMBER_ID):
        return {}
    check(described.error_code, described.error_message)
    return {member.member_id: member for member in described.members}
