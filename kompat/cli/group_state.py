"""The state of groups of all three types: classic, consumer (KIP-848) and share (KIP-932)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from kompat.cli.command import CommandError
from kompat.cli.kafka_client import Kafka, check

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
Places = dict[tuple[str, int], int]


def listed(kafka: Kafka) -> list[dict[str, Any]]:
    """All groups of all coordinators."""
    found = {
        each["group_id"]: {
            "group": each["group_id"],
            "type": each.get("group_type", CLASSIC).lower(),
            "state": each.get("group_state", ""),
            "protocol": each["protocol_type"],
        }
        for each in kafka.patiently(kafka.admin.list_groups)
    }
    return [found[name] for name in sorted(found)]


def required(kafka: Kafka, group: str) -> dict[str, Any]:
    for each in listed(kafka):
        if each["group"] == group:
            return each
    raise CommandError(f"group {group} does not exist")


def members(kafka: Kafka, group: str, kind: str) -> list[dict[str, Any]]:
    if kind == CONSUMER:
        return _described(kafka, group, "ConsumerGroupDescribeRequest")
    if kind == SHARE:
        return _described(kafka, group, "ShareGroupDescribeRequest")
    return _classic_members(kafka, group)


def _described(kafka: Kafka, group: str, request: str) -> list[dict[str, Any]]:
    from kompat.cli import own_messages

    message = getattr(own_messages, request)(group_ids=[group], include_authorized_operations=False)
    [found] = kafka.ask_coordinator(group, message).groups
    check(found.error_code, found.error_message, f"group {group}")
    return [
        {
            "memberId": each.member_id,
            "clientId": each.client_id,
            "host": each.client_host,
            "instanceId": getattr(each, "instance_id", None),
            "assignments": [
                {"topic": topic.topic_name, "partitions": sorted(topic.partitions)}
                for topic in each.assignment.topic_partitions
            ],
        }
        for each in found.members
    ]


def _classic_members(kafka: Kafka, group: str) -> list[dict[str, Any]]:
    found = kafka.patiently(lambda: kafka.admin.describe_groups([group]))[group]
    if found["error"]:
        raise CommandError(f"group {group}: {found['error']}")
    return [
        {
            "memberId": each["member_id"],
            "clientId": each["client_id"],
            "host": each["client_host"],
            "instanceId": each.get("group_instance_id"),
            "assignments": _assignments(each["member_assignment"]),
        }
        for each in found["members"]
    ]


def _assignments(target: Any) -> list[dict[str, Any]]:
    """The assignments of consumers. Other protocols have their own formats, which are not shown."""
    if not isinstance(target, Mapping):
        return []
    return [
        {"topic": each["topic"], "partitions": sorted(each["partitions"])}
        for each in target.get("assigned_partitions") or ()
    ]


def committed(kafka: Kafka, group: str, kind: str) -> Places:
    """The committed offsets of the group: for share groups, the start offsets."""
    if kind == SHARE:
        return {place: start for place, (start, _) in _share_offsets(kafka, group).items() if start >= 0}
    found = kafka.patiently(lambda: kafka.admin.list_group_offsets([group]))[group]
    return {(place.topic, place.partition): each.offset for place, each in found.items() if each.offset >= 0}


def offsets(kafka: Kafka, group: str, kind: str) -> list[dict[str, Any]]:
    """Offsets and lag of a group, by partition."""
    known = committed(kafka, group, kind)
    ends = _ends(kafka, known)
    lags = {place: lag for place, (_, lag) in _share_offsets(kafka, group).items()} if kind == SHARE else {}
    rows = []
    for place, offset in sorted(known.items()):
        end = ends.get(place)
        lag = lags.get(place, -1)
        if lag < 0 and end is not None:
            lag = max(0, end - offset)
        row = {"topic": place[0], "partition": place[1], "committed": offset, "endOffset": end}
        rows.append(row | {"lag": lag if end is not None else None})
    return rows


def _ends(kafka: Kafka, places: Places) -> Places:
    """The end offsets of partitions whose topics still exist."""
    from kafka.admin import OffsetSpec

    there = {topic["name"]: len(topic["partitions"]) for topic in kafka.topics()}
    known = [place for place in places if place[1] < there.get(place[0], 0)]
    return kafka.offsets(known, OffsetSpec.LATEST)


def _share_offsets(kafka: Kafka, group: str) -> dict[tuple[str, int], tuple[int, int]]:
    """The start offset and the lag of all partitions of a share group."""
    from kompat.cli.own_messages import DescribeShareGroupOffsetsRequest

    message = DescribeShareGroupOffsetsRequest(groups=[(group, None)])
    [found] = kafka.ask_coordinator(group, message).groups
    check(found.error_code, found.error_message, f"group {group}")
    return {
        (topic.topic_name, each.partition_index): (each.start_offset, getattr(each, "lag", -1))
        for topic in found.topics
        for each in topic.partitions
        if each.error_code == 0
    }


def commit(kafka: Kafka, group: str, kind: str, targets: Places) -> None:
    """Commit offsets. The group must have no members: they would commit other offsets soon."""
    if kind == SHARE:
        _commit_share(kafka, group, targets)
        return
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    offsets = {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in targets.items()}
    for place, error in kafka.admin.alter_group_offsets(group, offsets).items():
        if error.errno:
            check(error.errno, None, f"group {group}, {place.topic}/{place.partition}")


def _commit_share(kafka: Kafka, group: str, targets: Places) -> None:
    from kompat.cli.own_messages import AlterShareGroupOffsetsRequest

    topics: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, partition), offset in targets.items():
        topics[topic].append((partition, offset))
    answer = kafka.ask_coordinator(group, AlterShareGroupOffsetsRequest(group_id=group, topics=list(topics.items())))
    check(answer.error_code, answer.error_message, f"group {group}")
    for topic in answer.responses:
        for each in topic.partitions:
            check(each.error_code, each.error_message, f"group {group}, {topic.topic_name}/{each.partition_index}")
