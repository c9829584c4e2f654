"""The embedded protocol of classic consumers: what `consumer` members put into JoinGroup and SyncGroup.

For other protocol types (`connect`, `sr`) these bytes are opaque and never opened.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kompat.protocol.primitives import MalformedBytesError, Reader, Writer

PROTOCOL_TYPE = "consumer"
HIGHEST_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: Mapping[str, tuple[int, ...]]
    generation_id: int = -1
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsAssignment:
    version: int
    partitions: Mapping[str, tuple[int, ...]]
    user_data: bytes | None


def parse_subscription(data: bytes) -> Subscription:
    reader = Reader(data)
    version = _version(reader)
    known = min(version, HIGHEST_VERSION)  # newer ones only add fields at the end
    return Subscription(
        version=version,
        topics=reader.array(reader.string),
        user_data=reader.nullable_bytes(),
        owned_partitions=_partitions(reader) if known >= 1 else {},
        generation_id=reader.int32() if known >= 2 else -1,
        rack_id=reader.nullable_string() if known >= 3 else None,
    )


def parse_subscribed_topics(data: bytes) -> tuple[str, ...]:
    """Only the topics: all versions begin with them."""
    reader = Reader(data)
    _version(reader)
    return reader.array(reader.string)


def parse_version(data: bytes) -> int:
    return _version(Reader(data))


def parse_assignment(data: bytes) -> TopicsAssignment:
    reader = Reader(data)
    version = _version(reader)
    return TopicsAssignment(version=version, partitions=_partitions(reader), user_data=reader.nullable_bytes())


def encode_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    out = Writer()
    out.int16(min(version, HIGHEST_VERSION))
    out.int32(len(partitions))
    for topic, numbers in partitions.items():
        ordered = sorted(numbers)
        out.string(topic)
        out.int32(len(ordered))
        for number in ordered:
            out.int32(number)
    out.nullable_bytes(None)
    return out.finish()


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise MalformedBytesError(f"version {version} of the consumer protocol")
    return version


def _partitions(reader: Reader) -> dict[str, tuple[int, ...]]:
    return dict(reader.array(lambda: (reader.string(), reader.array(reader.int32))))
