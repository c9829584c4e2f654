"""Members of groups, spoken for request by request."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import UUID

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker

NUMBERS = count()
PROTOCOL = "range"
# The embedded consumer protocol, version 0: topics, no user data.
NO_TOPICS = struct.pack(">hii", 0, 0, -1)


def new_group() -> str:
    return f"group-{next(NUMBERS)}"


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def join(ask: Asker, group: str, member_id: str = "", version: int = 9, **fields: Any) -> Any:
    protocols = fields.pop("protocols", {PROTOCOL: NO_TOPICS})
    request = {
        "group_id": group,
        "member_id": member_id,
        "protocol_type": "consumer",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols.items()],
        **fields,
    }
    return ask("JoinGroup", version, **request)


def sync(ask: Asker, joined: Any, group: str, version: int = 5, **fields: Any) -> Any:
    request = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": joined.protocol_name,
        **fields,
    }
    return ask("SyncGroup", version, **request)


def joined(ask: Asker, group: str, **fields: Any) -> Any:
    """Joins as stock clients do: if the group wants a member id, with the one that it gives."""
    first = join(ask, group, **fields)
    if first.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return join(ask, group, first.member_id, **fields)
    return first


def only_member(ask: Asker, group: str, assignment: bytes = b"all", **fields: Any) -> Any:
    """The one member of a group that is stable."""
    member = joined(ask, group, **fields)
    assignments = [{"member_id": member.member_id, "assignment": assignment}]
    more = {name: fields[name] for name in ("group_instance_id", "protocol_type") if name in fields}
    assert sync(ask, member, group, assignments=assignments, **more).error_code == ErrorCode.NONE
    return member


def leave(ask: Asker, group: str, member_id: str) -> None:
    answer = ask("LeaveGroup", 5, group_id=group, members=[{"member_id": member_id}])
    assert [each.error_code for each in answer.members] == [ErrorCode.NONE]


@contextmanager
def waiting(call: Any, *args: Any, **fields: Any) -> Iterator[Future[Any]]:
    """A request that is answered only after something that happens in the block."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(call, *args, **fields)


def heartbeat(ask: Asker, group: str, member: Any, version: int = 4, **fields: Any) -> ErrorCode:
    request = {"group_id": group, "generation_id": member.generation_id, "member_id": member.member_id, **fields}
    return ErrorCode(ask("Heartbeat", version, **request).error_code)


# -- consumer protocol -------------------------------------------------------------------------------------------------
@dataclass
class Consumer:
    """A member of a consumer group, as its heartbeats tell of it."""

    ask: Asker
    group: str
    member_id: str
    version: int = 1

    def beat(self, epoch: int, **fields: Any) -> Any:
        request = {"group_id": self.group, "member_id": self.member_id, "member_epoch": epoch, **fields}
        return self.ask("ConsumerGroupHeartbeat", self.version, **request)

    def join(self, *topics: str, **fields: Any) -> Any:
        request = {
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
            **fields,
        }
        return self.beat(0, **request)

    def leave(self) -> Any:
        return self.beat(-1)


def a_consumer(ask: Asker, group: str | None = None, version: int = 1) -> Consumer:
    return Consumer(ask, group or new_group(), f"member-{next(NUMBERS)}", version)


# -- offsets -----------------------------------------------------------------------------------------------------------
def commit(ask: Asker, group: str, topic: str, offset: int = 5, version: int = 9, **fields: Any) -> list[ErrorCode]:
    """Commit for partition 0, or for the `partitions`; the errors in their order."""
    indices = fields.pop("partitions", [0])
    metadata = fields.pop("metadata", "note")
    partitions = [{"partition_index": i, "committed_offset": offset, "committed_metadata": metadata} for i in indices]
    answer = ask("OffsetCommit", version, group_id=group, topics=[{"name": topic, "partitions": partitions}], **fields)
    return [ErrorCode(each.error_code) for each in answer.topics[0].partitions]


def committed(ask: Asker, group: str, topic: str, index: int = 0, **fields: Any) -> tuple[ErrorCode, int]:
    """Error and offset of one partition."""
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [index]}]}
    answer = ask("OffsetFetch", 9, groups=[asked], **fields)
    [partition] = answer.groups[0].topics[0].partitions
    return ErrorCode(partition.error_code), partition.committed_offset


def an_empty_group(ask: Asker) -> str:
    group = new_group()
    leave(ask, group, only_member(ask, group).member_id)
    return group


def owned(ask: Asker, topic: str, *indices: int) -> list[dict[str, Any]]:
    topic_id: UUID = ask("Metadata", 12, topics=[{"topic_id": None, "name": topic}]).topics[0].topic_id
    return [{"topic_id": topic_id, "partitions": list(indices)}]


BY_ID = 10


def id_of(ask: Asker, topic: str) -> UUID:
    found: UUID = ask("Metadata", 12, topics=[{"topic_id": None, "name": topic}]).topics[0].topic_id
    return found


def name_it(ask: Asker, topic: str, version: int) -> dict[str, Any]:
    """As the version of OffsetCommit or OffsetFetch names topics."""
    return {"topic_id": id_of(ask, topic)} if version >= BY_ID else {"name": topic}


def fetched(ask: Asker, group: str, topic: str | None, version: int, **fields: Any) -> list[Any]:
    """The partitions of the one topic that is answered; none if none is."""
    topics = None if topic is None else [{**name_it(ask, topic, version), "partition_indexes": [0]}]
    if version < 8:
        answer = ask("OffsetFetch", version, group_id=group, topics=topics, **fields)
    else:
        stable = {name: fields.pop(name) for name in ("require_stable",) if name in fields}
        groups = [{"group_id": group, "topics": topics, **fields}]
        [answer] = ask("OffsetFetch", version, groups=groups, **stable).groups
        assert answer.group_id == group
    assert version < 2 or answer.error_code == ErrorCode.NONE
    assert len(answer.topics) <= 1
    return [partition for each in answer.topics for partition in each.partitions]
