"""`__share_group_state` in Kafka's own formats: ShareSnapshot (key type 0) has all of a share partition's state, ShareUpdate
(key type 1) what changed since. A snapshot without a value deletes the share partition's state.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kompat.errors import DamagedData
from kompat.protocol.primitives import MalformedBytesError, Reader, Writer
from kompat.share.machine.messages import RecordState, StateBatch
from kompat.types import Buffer, Millis, Offset

NO_COUNT = -1  # of complete offsets: Kafka did not keep it before 4.2
UNINITIALIZED = Offset(-1)  # the start offset of a share partition that has not been used yet


class ShareKey(NamedTuple):
    group_id: str
    topic_id: UUID
    partition: int

    @property
    def coordinator_key(self) -> str:
        """Its hash selects the partition of `__share_group_state`."""
        topic_id = base64.urlsafe_b64encode(self.topic_id.bytes).decode().rstrip("=")
        return f"{self.group_id}:{topic_id}:{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSnapshot:
    key: ShareKey
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: Offset
    complete_count: int
    create_timestamp: Millis
    write_timestamp: Millis
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUpdate:
    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: Offset  # UNINITIALIZED: unchanged
    complete_count: int
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True)
class ShareEnd:
    key: ShareKey


ShareRecord = ShareSnapshot | ShareUpdate | ShareEnd

SNAPSHOT_KEY, UPDATE_KEY = 0, 1
VALUE_VERSION = 0
COMPLETE_COUNT_TAG = 0


class ShareCodec:
    def encode(self, record: ShareRecord) -> tuple[bytes, bytes | None]:
        if isinstance(record, ShareUpdate):
            return _key(UPDATE_KEY, record.key), _update(record)
        return _key(SNAPSHOT_KEY, record.key), _snapshot(record) if isinstance(record, ShareSnapshot) else None

    def decode(self, key: bytes | None, value: bytes | None) -> ShareRecord | None:
        """None: a record type that this version does not know; a newer version may have written it."""
        if key is None:
            return None
        try:
            return _decode(key, value)
        except (MalformedBytesError, ValueError) as error:
            raise DamagedData(f"a record of __share_group_state cannot be read: {error}") from error


def _decode(key: Buffer, value: Buffer | None) -> ShareRecord | None:
    reader = Reader(key)
    kind = reader.int16()
    if kind not in (SNAPSHOT_KEY, UPDATE_KEY):
        return None
    share_key = ShareKey(reader.string(), reader.uuid(), reader.int32())
    if value is None:
        return ShareEnd(share_key) if kind == SNAPSHOT_KEY else None
    body = Reader(value)
    if body.int16() != VALUE_VERSION:
        return None
    return _read_snapshot(share_key, body) if kind == SNAPSHOT_KEY else _read_update(share_key, body)


def _key(kind: int, key: ShareKey) -> bytes:
    out = Writer()
    out.int16(kind)
    out.string(key.group_id)
    out.uuid(key.topic_id)
    out.int32(key.partition)
    return out.finish()


def _snapshot(record: ShareSnapshot) -> bytes:
    out = Writer()
    out.int16(VALUE_VERSION)
    out.int32(record.snapshot_epoch)
    out.int32(record.state_epoch)
    out.int32(record.leader_epoch)
    out.int64(record.start_offset)
    out.int64(record.create_timestamp)
    out.int64(record.write_timestamp)
    _write_batches(out, record.batches)
    _write_count(out, record.complete_count)
    return out.finish()


def _read_snapshot(key: ShareKey, body: Reader) -> ShareSnapshot:
    snapshot_epoch, state_epoch, leader_epoch = body.int32(), body.int32(), body.int32()
    start_offset = Offset(body.int64())
    created, written = Millis(body.int64()), Millis(body.int64())
    batches = _read_batches(body)
    return ShareSnapshot(
        key=key,
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        complete_count=_read_count(body),
        create_timestamp=created,
        write_timestamp=written,
        batches=batches,
    )


def _update(record: ShareUpdate) -> bytes:
    out = Writer()
    out.int16(VALUE_VERSION)
    out.int32(record.snapshot_epoch)
    out.int32(record.leader_epoch)
    out.int64(record.start_offset)
    _write_batches(out, record.batches)
    _write_count(out, record.complete_count)
    return out.finish()


def _read_update(key: ShareKey, body: Reader) -> ShareUpdate:
    snapshot_epoch, leader_epoch = body.int32(), body.int32()
    start_offset = Offset(body.int64())
    batches = _read_batches(body)
    return ShareUpdate(
        key=key,
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        complete_count=_read_count(body),
        batches=batches,
    )


def _write_batches(out: Writer, batches: tuple[StateBatch, ...]) -> None:
    out.uvarint(len(batches) + 1)
    for first, last, state, count in batches:
        out.int64(first)
        out.int64(last)
        out.int8(state)
        out.int16(count)
        out.tags([])


def _read_batches(body: Reader) -> tuple[StateBatch, ...]:
    def batch() -> StateBatch:
        first, last, state, count = body.int64(), body.int64(), body.int8(), body.int16()
        body.tags()
        if not 0 <= first <= last:
            raise ValueError(f"offsets {first} to {last} are no batch")
        return StateBatch(first, last, RecordState(state), count)

    return body.compact_array(batch)


def _write_count(out: Writer, count: int) -> None:
    out.tags([] if count == NO_COUNT else [(COMPLETE_COUNT_TAG, count.to_bytes(4, "big", signed=True))])


def _read_count(body: Reader) -> int:
    found = body.tags().get(COMPLETE_COUNT_TAG)
    return NO_COUNT if found is None else int.from_bytes(found, "big", signed=True)
