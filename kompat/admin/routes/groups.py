"""Groups: list, describe with lag, move their offsets, delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from kompat.admin import groups
from kompat.admin.fan_out import Place
from kompat.admin.group_offsets import commit, delete_offsets, target
from kompat.admin.groups import Group, Kind
from kompat.admin.problems import check, invalid
from kompat.admin.route import Call, Route
from kompat.admin.shapes import MOST_ITEMS, Answer, Body, Page, PageQuery, Time, page
from kompat.common.slices import sliced
from kompat.protocol.messages import DeleteGroupsRequest

Text = Annotated[str, Meta(max_length=1024)]
TopicName = Annotated[str, Meta(max_length=249)]
Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Position = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Indexes = Annotated[list[Index], Meta(min_length=1, max_length=10_000)]


class GroupsQuery(PageQuery):
    type: Literal["classic", "consumer", "share"] | None = None
    state: Annotated[str, Meta(max_length=64, description="such as Stable or Empty")] | None = None
    search: Annotated[str, Meta(max_length=1024, description="only names that contain this text")] = ""


class GroupSummary(Answer):
    group: str
    type: Kind
    state: str
    protocol: str
    members: int
    coordinator: int
    lag: int | None  # null if it is not known


class AssignedTopic(Answer):
    topic: str
    partitions: list[int]


class Member(Answer):
    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    assignments: list[AssignedTopic]


class GroupOffset(Answer):
    topic: str
    partition: int
    committed: int  # of a share group: its start offset
    end_offset: int | None
    lag: int | None
    metadata: str | None


class GroupDetails(Answer):
    group: str
    type: Kind
    state: str
    protocol: str
    coordinator: int
    lag: int | None
    members: list[Member]
    offsets: list[GroupOffset]


class To(Body):
    """Give one of these."""

    offset: Position | None = None
    time: Time | None = None
    shift_by: Annotated[int, Meta(ge=-(2**62), le=2**62)] | None = None


class Reset(Body):
    to: Literal["earliest", "latest"] | To
    topic: TopicName | None = None
    partitions: Indexes | None = None
    dry_run: bool = False


class Move(Answer, kw_only=True, rename={"from_": "from"}):
    topic: str
    partition: int
    from_: int | None = None
    to: int


class Moved(Answer):
    offsets: list[Move]


class NewOffset(Body):
    topic: TopicName
    partition: Index
    offset: Position
    metadata: Annotated[str, Meta(max_length=4096)] = ""


class NewOffsets(Body):
    offsets: Annotated[list[NewOffset], Meta(min_length=1, max_length=MOST_ITEMS * 10)]


class DeletedOffsets(Body):
    topic: TopicName
    partitions: Indexes | None = None


async def list_groups(call: Call) -> Page[GroupSummary]:
    query = call.query
    types, states = [query.type] if query.type else [], [query.state] if query.state else []
    found = [group for group in await groups.list_groups(call, types, states) if query.search in group.name]
    chosen = await page(found, lambda group: group.name, query.limit, query.cursor)
    await groups.complete(call, chosen.items)
    return Page(items=[_summary(group) async for group in sliced(chosen.items)], next_cursor=chosen.next_cursor)


def _summary(group: Group) -> GroupSummary:
    return GroupSummary(
        group=group.name,
        type=group.kind,
        state=group.state,
        protocol=group.protocol,
        members=len(group.members),
        coordinator=group.coordinator,
        lag=group.lag,
    )


async def get_group(call: Call) -> GroupDetails:
    group = await groups.find_group(call, call.path["group"])
    return GroupDetails(
        group=group.name,
        type=group.kind,
        state=group.state,
        protocol=group.protocol,
        coordinator=group.coordinator,
        lag=group.lag,
        members=[_member(group.kind, each) async for each in sliced(group.members)],
        offsets=[
            GroupOffset(
                topic=topic,
                partition=partition,
                committed=each.offset,
                end_offset=each.end,
                lag=each.lag,
                metadata=each.metadata,
            )
            async for (topic, partition), each in sliced(sorted(group.offsets.items(), key=_place))
        ],
    )


def _place(item: tuple[Place, Any]) -> Place:
    return item[0]


def _member(kind: Kind, member: Any) -> Member:
    assigned = groups.assignment_of(kind, member)
    instance = getattr(member, "group_instance_id" if kind == "classic" else "instance_id", None)
    return Member(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        instance_id=instance,
        assignments=[AssignedTopic(topic=topic, partitions=sorted(found)) for topic, found in sorted(assigned.items())],
    )


async def reset(call: Call) -> Moved:
    body: Reset = call.body
    if body.partitions is not None and body.topic is None:
        raise invalid("`partitions` needs a `topic`.")
    if (
        isinstance(body.to, To)
        and sum(each is not None for each in (body.to.offset, body.to.time, body.to.shift_by)) != 1
    ):
        raise invalid('`to` is "earliest", "latest", or an object with one of `offset`, `time` and `shiftBy`.')
    group = await groups.find_group(call, call.path["group"])
    wanted = await target(call, group, body)
    if not body.dry_run:
        await commit(call, group, {place: (offset, "") async for place, offset in sliced(wanted.items())})
    return await _moved(group, wanted)


async def put_offsets(call: Call) -> Moved:
    """Commit offsets, also for a group that does not exist yet, which creates it."""
    wanted = {(each.topic, each.partition): (each.offset, each.metadata) async for each in sliced(call.body.offsets)}
    group = await groups.find_or_begin(call, call.path["group"])
    await commit(call, group, wanted)
    return await _moved(group, {place: offset for place, (offset, _) in wanted.items()})


async def _moved(group: Group, after: dict[Place, int]) -> Moved:
    before = group.offsets
    return Moved(
        offsets=[
            Move(topic=place[0], partition=place[1], from_=before[place].offset if place in before else None, to=offset)
            async for place, offset in sliced(sorted(after.items(), key=_place))
        ]
    )


async def forget_offsets(call: Call) -> None:
    await delete_offsets(call, await groups.find_group(call, call.path["group"]), call.body.topic, call.body.partitions)


async def delete_group(call: Call) -> None:
    name = call.path["group"]
    coordinator = await call.requests.to_coordinator(name)
    response = await call.send(DeleteGroupsRequest(groups_names=[name]), to=coordinator)
    code = response.results[0].error_code
    check(code, f"Group {name} has members." if code == 68 else None)


GROUP = "/v1/groups/{group}"
ROUTES = [
    Route(
        method="GET", path="/v1/groups", handle=list_groups, summary="List groups with their lag", tag="groups",
        query=GroupsQuery, answer=Page[GroupSummary],
    ),
    Route(
        method="GET", path=GROUP, handle=get_group, summary="Describe a group: members, offsets, lag", tag="groups",
        answer=GroupDetails,
    ),
    Route(
        method="DELETE", path=GROUP, handle=delete_group, summary="Delete a group that has no members", tag="groups",
        problems=(409,),
    ),
    Route(
        method="POST", path=f"{GROUP}/reset", handle=reset, summary="Reset the offsets of a group", tag="groups",
        body=Reset, answer=Moved, problems=(409,),
        description="The offsets of one topic are reset, or of all topics for which the group has committed offsets. `dryRun` returns the result without changing anything. The group must not have members.",
    ),
    Route(
        method="PUT", path=f"{GROUP}/offsets", handle=put_offsets, summary="Set offsets of a group", tag="groups",
        body=NewOffsets, answer=Moved, problems=(409,),
    ),
    Route(
        method="DELETE", path=f"{GROUP}/offsets", handle=forget_offsets, summary="Delete the offsets of a group for a topic",
        tag="groups", body=DeletedOffsets, problems=(409,),
    ),
]  # fmt: skip
