"""Groups of all three types, from the responses of their coordinators and of partition leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kompat.admin.fan_out import LATEST, Place, brokers, offsets, together
from kompat.admin.problems import check
from kompat.admin.route import Call
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.groups.consumer_protocol import parse_assignment
from kompat.protocol.messages import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    DescribeShareGroupOffsetsRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
)
from kompat.protocol.primitives import MalformedBytesError
from kompat.types import NodeId

WITH_NAMES = 9  # the last version of OffsetFetch and OffsetCommit with topic names
Kind = Literal["classic", "consumer", "share"]
NONE_SUCH = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID)


@dataclass(slots=True)
class Committed:
    offset: int
    metadata: str | None = None
    end: int | None = None
    lag: int | None = None


@dataclass(slots=True)
class Group:
    name: str
    kind: Kind
    state: str
    protocol: str
    coordinator: NodeId
    members: Sequence[Any] = ()  # as in the response of the type's API
    offsets: dict[Place, Committed] = field(default_factory=dict)

    @property
    def lag(self) -> int | None:
        """The total lag; None if that of a partition is unknown."""
        each = [found.lag for found in self.offsets.values()]
        return None if None in each or not each else sum(lag for lag in each if lag is not None)


async def list_groups(call: Call, types: Sequence[str], states: Sequence[str]) -> list[Group]:
    """All groups that the caller may see, without members and offsets."""

    async def ask(node: NodeId) -> list[Group]:
        response = await call.send(ListGroupsRequest(states_filter=states, types_filter=types), to=node)
        check(response.error_code)
        return [
            Group(each.group_id, each.group_type.lower(), each.group_state, each.protocol_type, node)
            for each in response.groups
        ]

    found = await together(ask(node) for node in brokers(call))
    return list({group.name: group for groups in found for group in groups}.values())


async def find_group(call: Call, name: str) -> Group:
    """Raises GROUP_ID_NOT_FOUND if there is no group of any type."""
    coordinator = await call.requests.to_coordinator(name)
    kinds: tuple[Kind, ...] = ("consumer", "share", "classic")
    for kind in kinds:
        group = Group(name, kind, "", "", coordinator)
        described = (await _describe(call, coordinator, kind, [name]))[name]
        if described.error_code in NONE_SUCH:
            continue
        check(described.error_code, described.error_message)
        _take(group, described)
        await complete_offsets(call, [group])
        return group
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} does not exist.")


async def find_or_begin(call: Call, name: str) -> Group:
    """The group; a new one if it does not exist: its first commit creates it."""
    try:
        return await find_group(call, name)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    return Group(name, "classic", "", "", await call.requests.to_coordinator(name))


async def complete(call: Call, groups: Sequence[Group]) -> None:
    """Add members and offsets, with one request to each coordinator for all its groups of a type."""
    by_coordinator: dict[tuple[NodeId, Kind], list[Group]] = defaultdict(list)
    for group in groups:
        by_coordinator[group.coordinator, group.kind].append(group)

    async def ask(coordinator_and_kind: tuple[NodeId, Kind], members: list[Group]) -> None:
        described = await _describe(call, *coordinator_and_kind, [group.name for group in members])
        for group in members:
            if described[group.name].error_code == ErrorCode.NONE:
                _take(group, described[group.name])

    await together(ask(coordinator_and_kind, members) for coordinator_and_kind, members in by_coordinator.items())
    await complete_offsets(call, groups)


async def _describe(call: Call, node: NodeId, kind: Kind, names: list[str]) -> dict[str, Any]:
    request: Any
    if kind == "consumer":
        request = ConsumerGroupDescribeRequest(group_ids=names)
    elif kind == "share":
        request = ShareGroupDescribeRequest(group_ids=names)
    else:
        request = DescribeGroupsRequest(groups=names)
    response = await call.send(request, to=node)
    return {each.group_id: each for each in response.groups}


def _take(group: Group, described: Any) -> None:
    group.state = described.group_state
    group.protocol = described.protocol_data if group.kind == "classic" else described.assignor_name
    group.members = described.members


def assignment_of(kind: Kind, member: Any) -> dict[str, list[int]]:
    if kind != "classic":
        return {each.topic_name: list(each.partitions) for each in member.assignment.topic_partitions}
    try:
        found = parse_assignment(bytes(member.member_assignment)) if member.member_assignment else None
    except MalformedBytesError:  # not the consumer protocol
        return {}
    return {} if found is None else {topic: list(numbers) for topic, numbers in found.partitions.items()}


# -- offsets -----------------------------------------------------------------------------------------------------------
async def complete_offsets(call: Call, groups: Sequence[Group]) -> None:
    by_node: dict[tuple[NodeId, bool], list[Group]] = defaultdict(list)
    for group in groups:
        by_node[group.coordinator, group.kind == "share"].append(group)
    await together(
        _share_offsets(call, node, found) if is_share else _committed(call, node, found)
        for (node, is_share), found in by_node.items()
    )
    wanted: dict[str, set[int]] = defaultdict(set)
    async for topic, partition in sliced(place for group in groups for place in group.offsets):
        wanted[topic].add(partition)
    ends = await offsets(call, wanted, LATEST)
    async for place, found in sliced(each for group in groups for each in group.offsets.items()):
        found.end = ends.get(place)
        if found.lag is None and found.end is not None and found.offset >= 0:
            found.lag = max(0, found.end - found.offset)


async def _committed(call: Call, node: NodeId, groups: Iterable[Group]) -> None:
    by_name = {group.name: group for group in groups}
    requested = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None) for name in by_name]
    response = await call.send(OffsetFetchRequest(groups=requested), to=node, version=WITH_NAMES)
    async for group, topic, each in sliced(_partitions(response)):
        if each.error_code == ErrorCode.NONE and each.committed_offset >= 0:
            found = Committed(each.committed_offset, each.metadata)
            by_name[group].offsets[topic.name, each.partition_index] = found


def _partitions(response: Any) -> Iterator[tuple[str, Any, Any]]:
    """All partitions of a response, with their group's name and topic."""
    return (
        (group.group_id, topic, each)
        for group in response.groups
        for topic in group.topics
        for each in topic.partitions
    )


async def _share_offsets(call: Call, node: NodeId, groups: Iterable[Group]) -> None:
    by_name = {group.name: group for group in groups}
    kind = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    response = await call.send(
        DescribeShareGroupOffsetsRequest(groups=[kind(group_id=name, topics=None) for name in by_name]), to=node
    )
    async for group, topic, each in sliced(_partitions(response)):
        if each.error_code == ErrorCode.NONE:
            found = Committed(each.start_offset, lag=each.lag if each.lag >= 0 else None)
            by_name[group].offsets[topic.topic_name, each.partition_index] = found
