"""The machines' view of the cluster's topics: it comes from outside and is never replicated."""

import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from kompat._native import xxh3_64

_TOPIC_HASH_VERSION = b"\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    name: str
    topic_id: UUID
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()  # by partition: the racks of its replicas' brokers, if configured


class Topics(Protocol):
    """A view of the cluster's current topics."""

    @property
    def version(self) -> int:
        """Increases when topics are created: regular expressions resolved at an older version are resolved again."""
        ...

    def find(self, name: str) -> TopicInfo | None: ...

    def find_by_id(self, topic_id: UUID) -> TopicInfo | None: ...

    def names(self) -> Collection[str]: ...


class TopicTable:
    """Topics from a list."""

    def __init__(self, topics: Iterable[TopicInfo] = (), version: int = 0) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}
        self._version = version

    @property
    def version(self) -> int:
        return self._version

    def find(self, name: str) -> TopicInfo | None:
        return self._by_name.get(name)

    def find_by_id(self, topic_id: UUID) -> TopicInfo | None:
        return self._by_id.get(topic_id)

    def names(self) -> Collection[str]:
        return self._by_name.keys()


class MetadataHash:
    """Kafka's hash of a group's set of topics: when it changes, so does the assignment."""

    def __init__(self) -> None:
        self._by_topic: dict[str, int] = {}

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._by_topic.pop(name, None)

    def of(self, names: Iterable[str], topics: Topics) -> int:
        hashes = [value for name in sorted(names) if (value := self._topic(name, topics)) is not None]
        if not hashes:
            return 0
        return _signed(xxh3_64(struct.pack(f"<{len(hashes)}Q", *hashes)))

    def _topic(self, name: str, topics: Topics) -> int | None:
        known = self._by_topic.get(name)
        if known is not None:
            return known
        topic = topics.find(name)
        if topic is None:
            return None
        self._by_topic[name] = topic_hash(topic)
        return self._by_topic[name]


def topic_hash(topic: TopicInfo) -> int:
    out = bytearray(_TOPIC_HASH_VERSION)
    number = topic.topic_id.int
    out += struct.pack("<QQ", number >> 64, number & (2**64 - 1))
    out += _text(topic.name)
    out += struct.pack("<i", topic.partitions)
    for partition in range(topic.partitions):
        out += struct.pack("<i", partition)
        for rack in sorted(topic.racks[partition]) if partition < len(topic.racks) else ():
            out += struct.pack("<i", len(rack)) + _text(rack)
    return xxh3_64(bytes(out))


def _text(value: str) -> bytes:
    """A string as Kafka's hashing library feeds it: its UTF-16 units, then their number."""
    encoded = value.encode("utf-16-le")
    return encoded + struct.pack("<i", len(encoded) // 2)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
