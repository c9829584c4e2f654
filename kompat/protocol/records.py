"""Records and their batches.

Opening, building and rebuilding batches is here: for state machines, the cleaner and recompression. What the hot path
does with a batch, unopened, is in batch.py; its names are offered here too, so that other layers need one import.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from kompat import _native
from kompat._native import Facts, HeaderNames
from kompat.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_NAMES,
    TRANSACTIONAL,
    BatchHeader,
    RecordError,
    TooLargeError,
    check_batch,
    find_by_timestamp,
    read_header,
    refusal,
    refused_records,
    set_log_append_time,
    set_max_timestamp,
    split_batches,
    stamp,
)
from kompat.protocol.compression import DECOMPRESSED_LIMIT, Compression, compress, decompress
from kompat.types import Buffer

__all__ = [
    "HEADER_SIZE",
    "NO_NAMES",
    "BatchHeader",
    "Compression",
    "ControlType",
    "Facts",
    "HeaderNames",
    "Record",
    "RecordError",
    "TooLargeError",
    "build_batch",
    "check_batch",
    "control_batch",
    "control_type",
    "empty_batch",
    "find_by_timestamp",
    "is_same",
    "iterate",
    "keep_records",
    "read_header",
    "recompress",
    "refused_records",
    "set_log_append_time",
    "set_max_timestamp",
    "split_batches",
    "stamp",
]

_CRC = Struct(">I")
_CRC_AT = 17
_CONTROL_KEY = Struct(">hh")
_CONTROL_VALUE = Struct(">hi")
_CONTROL_VERSION = 0

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Record:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1


def iterate(batch: Buffer, names: HeaderNames | None = None) -> Iterator[Record]:
    """Every record of one whole batch, or those that have a header of these names."""
    try:
        rows = _native.read_records(batch, DECOMPRESSED_LIMIT, names)
    except _native.BatchError as error:
        raise refusal(error) from None
    return (Record(*row) for row in rows)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: int = Compression.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = 0,
    timestamp_type: int = 0,
    last_offset_delta: int | None = None,
) -> bytearray:
    """A batch of at least one record. Without `last_offset_delta` it ends with its last record."""
    attributes = compression
    attributes |= LOG_APPEND_TIME if timestamp_type else 0
    attributes |= TRANSACTIONAL if is_transactional else 0
    attributes |= CONTROL if is_control else 0
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=records[-1].offset - base_offset if last_offset_delta is None else last_offset_delta,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return _assemble(header, _payload(header, records), level)


def recompress(batch: Buffer, codec: int, level: int | None = None) -> bytearray:
    """The same records under another codec; all else in the header stays."""
    header = read_header(batch)
    payload = decompress(header.compression, memoryview(batch)[HEADER_SIZE:])
    return _assemble(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), payload, level)


def keep_records(
    batch: Buffer, keep: Callable[[Record], bool], *, delete_horizon: int | None = None
) -> bytearray | None:
    """The batch without the records that `keep` refuses; None where nothing is left.

    Offsets stay, and so does the last offset, even where its record goes: a reader sees that nothing is missing.
    `delete_horizon`: mark when the tombstones that stay may go, unless the batch is marked already.
    """
    header = read_header(batch)
    kept = [record for record in iterate(batch) if keep(record)]
    if not kept:
        return None
    if delete_horizon is not None and header.delete_horizon is None:
        header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=delete_horizon)
    elif len(kept) == header.record_count:
        return bytearray(batch)
    if not header.timestamp_type:
        header = header._replace(max_timestamp=max(record.timestamp for record in kept))
    header = header._replace(record_count=len(kept))
    return _assemble(header, _payload(header, kept), None)


def is_same(one: Buffer, other: Buffer) -> bool:
    """Whether two batches have the same records. What brokers write into them does not count: offset, epoch, time of the append."""
    times = read_header(one).base_timestamp, read_header(other).base_timestamp
    return times[0] == times[1] and memoryview(one)[HEADER_SIZE:] == memoryview(other)[HEADER_SIZE:]


def empty_batch(header: BatchHeader) -> bytearray:
    """What stays of a batch without records, where its producer's state is still needed."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    empty = header._replace(attributes=attributes, base_timestamp=header.max_timestamp, record_count=0)
    return _assemble(empty, b"", None)


def control_batch(
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytearray:
    """The marker that ends a transaction in a partition."""
    key = _CONTROL_KEY.pack(_CONTROL_VERSION, kind)
    value = _CONTROL_VALUE.pack(_CONTROL_VERSION, coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, key, value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def control_type(batch: Buffer) -> ControlType | None:
    """How a control batch ends its transaction; None for markers of other kinds."""
    for record in iterate(batch):
        if record.key is not None and len(record.key) >= _CONTROL_KEY.size:
            kind: int = _CONTROL_KEY.unpack_from(record.key)[1]
            return ControlType(kind) if kind in (ControlType.ABORT, ControlType.COMMIT) else None
    return None


def _payload(header: BatchHeader, records: Sequence[Record]) -> bytes:
    try:
        return _native.write_records(records, header.base_offset, header.base_timestamp)
    except _native.BatchError as error:
        raise refusal(error) from None


def _assemble(header: BatchHeader, payload: Buffer, level: int | None) -> bytearray:
    packed = compress(header.compression, payload, level) if header.compression else payload
    batch = bytearray(HEADER_SIZE)
    batch += packed
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    _CRC.pack_into(batch, _CRC_AT, _native.crc32c(batch, CRC_START))
    return batch
