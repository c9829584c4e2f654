"""How logs lie in the database: keys that sort by log and then by offset or index, and fixed-width values.

| column family | key: log (20 bytes) and | value |
| --- | --- | --- |
| batches | base offset | head, then the batch (inline) or where it lies in the value log (pointer) |
| entries | raft index | entry, then its payload: what is written once it is committed |
| times | offset | newest timestamp up to there |
| state | `s` and a name | the caller's |
| state | `c` | compacted: up to which offset batches may have been rewritten, and their bytes |
| default | `f` and a path | nothing: a value-log file, or a directory, that is to be removed |
| default | `s`, log, segment, number | nothing: a value-log file that may have lost its last batch |

A batch's *position* is the number of bytes appended before it. It never changes, so the size of any stretch that has not been
compacted is a difference of two positions, and nothing needs to be counted when a segment is dropped.
"""

from struct import Struct
from typing import NamedTuple
from uuid import UUID

from kompat.log.storage.store import Entry, EntryKind, StoredBatch
from kompat.types import LogId, Millis, Offset, RaftIndex

LOG_SIZE = 20
STATE_NAME_AT = LOG_SIZE + 1
INLINE, POINTER = 0, 1

_head = Struct(">BQQIq")  # kind, position, last offset, size, max timestamp
_pointer = Struct(_head.format + "QQQ")  # and segment, file number, place in the file
_place = Struct(">QQQ")
_entry = Struct(">qBqIIqhqhi")  # term, kind, base offset, offsets, size, max timestamp, attributes, producer
_number = Struct(">Q")
_time = Struct(">q")
_compacted = Struct(">Qq")
_file = Struct(">QQ")

HEAD_SIZE = _head.size
number = _number.pack
pack_head = _head.pack
unpack_head = _head.unpack_from
pack_pointer = _pointer.pack


class Head(NamedTuple):
    """What stands before every batch."""

    kind: int
    position: int
    last_offset: int
    size: int
    max_timestamp: int


class Compacted(NamedTuple):
    """Batches below this offset may have been rewritten; `size`: their bytes together, -1 where they were not counted."""

    below: int
    size: int


def head(value: bytes) -> Head:
    return Head._make(_head.unpack_from(value))


def pointer(value: bytes) -> tuple[int, int, int]:
    """The segment, number and place in the file."""
    segment, file_number, place = _place.unpack_from(value, HEAD_SIZE)
    return segment, file_number, place


def number_at_end(key: bytes) -> int:
    """The offset or index that a key ends with."""
    value: int = _number.unpack_from(key, LOG_SIZE)[0]
    return value


def log_end(log: bytes) -> bytes:
    """A key after all keys of the log, in every column family."""
    return log + b"\xff" * 9


def log_id(key: bytes) -> LogId:
    return LogId(UUID(bytes=key[:16]), int.from_bytes(key[16:LOG_SIZE], "big"))


def stored_batch(key: bytes, value: bytes) -> StoredBatch:
    _, _, last_offset, size, max_timestamp = _head.unpack_from(value)
    return StoredBatch(Offset(number_at_end(key)), Offset(last_offset), size, Millis(max_timestamp))


def entry_value(entry: Entry) -> bytes:
    return _entry.pack(
        entry.term,
        entry.kind,
        entry.base_offset,
        entry.last_offset - entry.base_offset + 1,
        entry.size,
        entry.max_timestamp,
        entry.attributes,
        entry.producer_id,
        entry.producer_epoch,
        entry.base_sequence,
    )


def stored_entry(key: bytes, value: bytes) -> Entry:
    term, kind, base, count, size, max_timestamp, attributes, producer, epoch, sequence = _entry.unpack_from(value)
    return Entry(
        RaftIndex(number_at_end(key)),
        term,
        EntryKind(kind),
        Offset(base),
        Offset(base + count - 1),
        size,
        Millis(max_timestamp),
        attributes,
        producer,
        epoch,
        sequence,
    )


def payload(value: bytes) -> bytes:
    return value[_entry.size :]


def full_entry(key: bytes, value: bytes) -> tuple[Entry, bytes]:
    return stored_entry(key, value), payload(value)


def time_value(timestamp: Millis) -> bytes:
    return _time.pack(timestamp)


def stored_time(value: bytes) -> Millis:
    return Millis(_time.unpack(value)[0])


def state_key(log: bytes, name: bytes) -> bytes:
    return log + b"s" + name


def compacted_key(log: bytes) -> bytes:
    return log + b"c"


def compacted_value(compacted: Compacted) -> bytes:
    return _compacted.pack(*compacted)


def stored_compacted(value: bytes) -> Compacted:
    return Compacted._make(_compacted.unpack(value))


def doomed_key(path: str) -> bytes:
    return b"f" + path.encode()


def sweep_key(log: bytes, segment: int, file_number: int) -> bytes:
    return b"s" + log + _file.pack(segment, file_number)


def swept_file(key: bytes) -> tuple[bytes, int, int]:
    """The log, segment and number of a sweep key."""
    segment, file_number = _file.unpack_from(key, 1 + LOG_SIZE)
    return key[1 : 1 + LOG_SIZE], segment, file_number
