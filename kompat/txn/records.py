"""`__transaction_state` in Kafka's own format: key v0 (the transactional id), value v1 (v0 is read too)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from kompat.errors import DamagedData
from kompat.protocol.primitives import MalformedBytesError, Reader, Writer
from kompat.txn.state import NO_PRODUCER_ID, State, Transaction
from kompat.types import Buffer, TopicPartition


@dataclass(frozen=True, slots=True)
class Changed:
    """The transactional id's new state."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The transactional id has expired: a tombstone."""

    transactional_id: str


Record = Changed | Forgotten

KEY_VERSION = 0
VALUE_VERSION = 1
PREVIOUS_PRODUCER_ID, NEXT_PRODUCER_ID, CLIENT_VERSION = 0, 1, 2


def encode(record: Record) -> tuple[bytes, bytes | None]:
    if isinstance(record, Forgotten):
        return _key(record.transactional_id), None
    return _key(record.transaction.transactional_id), _value(record.transaction)


def decode(key: Buffer, value: Buffer | None) -> Record | None:
    """None: a record type that this version does not know; a newer version may have written it."""
    try:
        reader = Reader(key)
        if reader.int16() != KEY_VERSION:
            return None
        transactional_id = reader.string()
        return Forgotten(transactional_id) if value is None else Changed(_read_value(transactional_id, Reader(value)))
    except (MalformedBytesError, ValueError) as error:
        raise DamagedData(f"a record of __transaction_state cannot be read: {error}") from error


def _key(transactional_id: str) -> bytes:
    out = Writer()
    out.int16(KEY_VERSION)
    out.string(transactional_id)
    return out.finish()


def _value(t: Transaction) -> bytes:
    out = Writer()
    out.int16(VALUE_VERSION)
    out.int64(t.producer_id)
    out.int16(t.producer_epoch)
    out.int32(t.timeout_ms)
    out.int8(t.state)
    _write_partitions(out, t)
    out.int64(t.updated_ms)
    out.int64(t.start_ms)
    tags = []
    if t.previous_producer_id != NO_PRODUCER_ID:
        tags.append((PREVIOUS_PRODUCER_ID, t.previous_producer_id.to_bytes(8, "big", signed=True)))
    if t.next_producer_id != NO_PRODUCER_ID:
        tags.append((NEXT_PRODUCER_ID, t.next_producer_id.to_bytes(8, "big", signed=True)))
    if t.client_version:
        tags.append((CLIENT_VERSION, t.client_version.to_bytes(2, "big", signed=True)))
    out.tags(tags)
    return out.finish()


def _write_partitions(out: Writer, t: Transaction) -> None:
    if t.state is State.EMPTY:  # null, as Kafka writes it
        out.uvarint(0)
        return
    by_topic: dict[str, list[int]] = defaultdict(list)
    for each in sorted(t.partitions):
        by_topic[each.topic].append(each.partition)
    out.uvarint(len(by_topic) + 1)
    for topic, indices in by_topic.items():
        out.compact_string(topic)
        out.compact_ints(indices)
        out.tags()


def _read_value(transactional_id: str, reader: Reader) -> Transaction:
    flexible = reader.int16() >= 1
    producer_id, epoch, timeout = reader.int64(), reader.int16(), reader.int32()
    state = State(reader.int8())
    partitions = frozenset(_read_partitions(reader, flexible=flexible))
    updated, start = reader.int64(), reader.int64()
    tags = reader.tags() if flexible else {}

    def tagged(tag: int, default: int) -> int:
        return int.from_bytes(tags[tag], "big", signed=True) if tag in tags else default

    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout,
        state=state,
        previous_producer_id=tagged(PREVIOUS_PRODUCER_ID, NO_PRODUCER_ID),
        next_producer_id=tagged(NEXT_PRODUCER_ID, NO_PRODUCER_ID),
        partitions=partitions,
        start_ms=start,
        updated_ms=updated,
        client_version=tagged(CLIENT_VERSION, 0),
    )


def _read_partitions(reader: Reader, *, flexible: bool) -> list[TopicPartition]:
    def topic() -> list[TopicPartition]:
        name = reader.compact_text() if flexible else reader.string()
        indices = reader.compact_array(reader.int32) if flexible else reader.array(reader.int32)
        if flexible:
            reader.tags()
        return [TopicPartition(name, index) for index in indices]

    topics = reader.compact_array(topic) if flexible else reader.array(topic)
    return [partition for each in topics for partition in each]
