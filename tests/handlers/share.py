"""A member of a share group, request by request."""

from __future__ import annotations

import socket
from typing import Any
from uuid import UUID

from kompat.protocol.records import iterate, split_batches
from tests.handlers import wire
from tests.handlers.conftest import Asker, build

SHARE_FETCH, SHARE_ACKNOWLEDGE = "ShareFetch", "ShareAcknowledge"


class Member:
    """On a connection of its own: its session ends with it."""

    def __init__(self, address: tuple[str, int], group_id: str, member_id: str, version: int = 2) -> None:
        self.connection = socket.create_connection(address, timeout=20)
        self.group_id = group_id
        self.member_id = member_id
        self.version = version
        self.epoch = 0

    def close(self) -> None:
        self.connection.close()

    def ask(self, api: str, fields: dict[str, Any]) -> Any:
        fields = {"group_id": self.group_id, "member_id": self.member_id, "share_session_epoch": self.epoch, **fields}
        epoch = fields["share_session_epoch"]
        answer = wire.exchange(self.connection, build(f"{api}Request", fields), self.version)
        if answer.error_code == 0:
            self.epoch = 0 if epoch == -1 else epoch + 1
        return answer

    def fetch(self, partitions: dict[UUID, list[int]] | None = None, acks: Any = None, **fields: Any) -> Any:
        """`partitions`: to add to the session. `acks`: (topic id, partition) → (first, last, types), …"""
        wanted: dict[UUID, dict[int, list[Any]]] = {
            topic: {index: [] for index in indices} for topic, indices in (partitions or {}).items()
        }
        for (topic, index), batches in (acks or {}).items():
            wanted.setdefault(topic, {})[index] = list(batches)
        limits = {"max_wait_ms": 3000, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        return self.ask(SHARE_FETCH, limits | {"topics": _topics(wanted)} | fields)

    def acknowledge(self, acks: Any, **fields: Any) -> Any:
        said: dict[UUID, dict[int, list[Any]]] = {}
        for (topic, index), batches in acks.items():
            said.setdefault(topic, {})[index] = list(batches)
        return self.ask(SHARE_ACKNOWLEDGE, {"topics": _topics(said)} | fields)


def beat(ask: Asker, group_id: str, member_id: str, epoch: int, *topics: str, **fields: Any) -> Any:
    """A heartbeat: with topics to begin with, or another time without."""
    names = list(topics) or None
    member = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch}
    return ask("ShareGroupHeartbeat", 1, subscribed_topic_names=names, **member, **fields)


def _topics(wanted: dict[UUID, dict[int, list[Any]]]) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": topic,
            "partitions": [
                {
                    "partition_index": index,
                    "acknowledgement_batches": [
                        {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
                        for first, last, types in batches
                    ],
                }
                for index, batches in partitions.items()
            ],
        }
        for topic, partitions in wanted.items()
    ]


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    """First offset, last offset, delivery count; of all partitions."""
    assert answer.error_code == 0, answer
    found = []
    for topic in answer.responses:
        for partition in topic.partitions:
            assert partition.error_code == 0, answer
            found += [(each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records]
    return found


def values(answer: Any) -> list[bytes | None]:
    """The records that the member holds now, and not those that came along."""
    found = []
    for topic in answer.responses:
        for partition in topic.partitions:
            held = {
                offset
                for each in partition.acquired_records
                for offset in range(each.first_offset, each.last_offset + 1)
            }
            for batch in split_batches(memoryview(partition.records or b"")):
                found += [record.value for record in iterate(batch) if record.offset in held]
    return found


def ack_errors(answer: Any) -> list[int]:
    name = "acknowledge_error_code" if type(answer).__name__.startswith("ShareFetch") else "error_code"
    return [getattr(partition, name) for topic in answer.responses for partition in topic.partitions]
