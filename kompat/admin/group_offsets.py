"""Resets the offsets of groups, as `kafka-consumer-groups --reset-offsets` does."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kompat.admin.fan_out import EARLIEST, LATEST, Place, offsets, together
from kompat.admin.groups import WITH_NAMES, Group
from kompat.admin.problems import check, invalid
from kompat.admin.route import Call
from kompat.admin.shapes import millis
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
)

if TYPE_CHECKING:
    from kompat.admin.routes.groups import Reset

HAS_MEMBERS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NON_EMPTY_GROUP)


async def target(call: Call, group: Group, reset: Reset) -> dict[Place, int]:
    """The new offset of each partition, within the range of its log."""
    wanted = _partitions(call, group, reset)
    starts, ends = await together((offsets(call, wanted, EARLIEST), offsets(call, wanted, LATEST)))
    places = [(topic, partition) for topic, partitions in wanted.items() for partition in partitions]
    await asyncio.sleep(0)
    lost = [place for place in places if place not in starts or place not in ends]
    if lost:
        topic, partition = lost[0]
        raise KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE, f"Partition {partition} of {topic} has no leader at the moment."
        )
    aims = await _aims(call, group, reset, wanted, starts, ends)
    return {place: min(max(aims[place], starts[place]), ends[place]) async for place in sliced(places)}


def _partitions(call: Call, group: Group, reset: Reset) -> dict[str, list[int]]:
    if reset.topic is None:
        if not group.offsets:
            raise invalid(f"Group {group.name} has no committed offsets. Give a `topic`.")
        known: dict[str, list[int]] = defaultdict(list)
        for topic, partition in sorted(group.offsets):
            known[topic].append(partition)
        return known
    found = call.services.cluster.topic(reset.topic)
    count = 0 if found is None else len(found.partitions)
    partitions = sorted(set(reset.partitions)) if reset.partitions is not None else list(range(count))
    if found is None or partitions[-1] >= count:
        what = f"topic {reset.topic}" if found is None else f"partition {partitions[-1]} of {reset.topic}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{what[0].upper()}{what[1:]} does not exist.")
    return {reset.topic: partitions}


async def _aims(
    call: Call,
    group: Group,
    reset: Reset,
    wanted: Mapping[str, list[int]],
    starts: Mapping[Place, int],
    ends: Mapping[Place, int],
) -> Mapping[Place, int]:
    to = reset.to
    if isinstance(to, str):
        return starts if to == "earliest" else ends
    if to.offset is not None:
        return dict.fromkeys(ends, to.offset)
    if to.time is not None:
        found = await offsets(call, wanted, millis(to.time, "to.time"))
        return {place: end if found.get(place, -1) < 0 else found[place] for place, end in ends.items()}
    shift = to.shift_by or 0
    missing = [place for place in ends if place not in group.offsets]
    if missing:
        raise invalid(
            f"Partition {missing[0][1]} of {missing[0][0]} has no committed offset to shift. Give `offset` or `time`."
        )
    return {place: group.offsets[place].offset + shift async for place in sliced(ends)}


async def commit(call: Call, group: Group, wanted: Mapping[Place, tuple[int, str]]) -> None:
    """Commit offsets. Raises NON_EMPTY_GROUP if the group has members, which would commit other offsets."""
    by_topic: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    async for (topic, partition), (offset, metadata) in sliced(wanted.items()):
        by_topic[topic].append((partition, offset, metadata))
    if group.kind == "share":
        await _alter_share(call, group, by_topic)
        return
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    topics = [
        kind(
            name=topic,
            partitions=[
                kind.OffsetCommitRequestPartition(
                    partition_index=p, committed_offset=offset, committed_metadata=metadata
                )
                async for p, offset, metadata in sliced(found)
            ],
        )
        for topic, found in by_topic.items()
    ]
    request = OffsetCommitRequest(group_id=group.name, topics=topics)
    response = await call.send(request, to=group.coordinator, version=WITH_NAMES)
    async for each in sliced(each for topic in response.topics for each in topic.partitions):
        _check(group, each.error_code, None)


async def _alter_share(call: Call, group: Group, by_topic: Mapping[str, list[tuple[int, int, str]]]) -> None:
    kind = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    topics = [
        kind(
            topic_name=topic,
            partitions=[
                kind.AlterShareGroupOffsetsRequestPartition(partition_index=p, start_offset=offset)
                async for p, offset, _ in sliced(found)
            ],
        )
        for topic, found in by_topic.items()
    ]
    request = AlterShareGroupOffsetsRequest(group_id=group.name, topics=topics)
    response = await call.send(request, to=group.coordinator)
    _check(group, response.error_code, response.error_message)
    async for each in sliced(each for topic in response.responses for each in topic.partitions):
        _check(group, each.error_code, each.error_message)


def _check(group: Group, code: int, message: str | None) -> None:
    if code in HAS_MEMBERS:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {group.name} has members, which commit offsets themselves.")
    check(code, message)


async def delete_offsets(call: Call, group: Group, topic: str, partitions: Sequence[int] | None) -> None:
    if group.kind == "share":
        if partitions is not None:
            raise invalid("The offsets of a share group are deleted for a whole topic: omit `partitions`.")
        kind = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
        request = DeleteShareGroupOffsetsRequest(group_id=group.name, topics=[kind(topic_name=topic)])
        response = await call.send(request, to=group.coordinator)
        _check(group, response.error_code, response.error_message)
        for each in response.responses:
            _check(group, each.error_code, each.error_message)
        return
    indexes = partitions if partitions is not None else [p for t, p in group.offsets if t == topic]
    if not indexes:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Group {group.name} has no committed offsets for {topic}."
        )
    of_topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    wanted = of_topic(
        name=topic,
        partitions=[of_topic.OffsetDeleteRequestPartition(partition_index=index) async for index in sliced(indexes)],
    )
    response = await call.send(OffsetDeleteRequest(group_id=group.name, topics=[wanted]), to=group.coordinator)
    _check(group, response.error_code, None)
    for found in response.topics:
        for each in found.partitions:
            _check(group, each.error_code, None)
