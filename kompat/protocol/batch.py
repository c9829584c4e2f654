"""A record batch, unopened: format 2 (magic 2), the only one that Kafka 4 stores. records.py opens and builds them.

A batch is 61 bytes of header and its records, compressed or not. Base offset and leader epoch lie outside the CRC, so
a broker gives a batch its place without touching the rest: batches pass through as the client sent them.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from kompat import _native
from kompat._native import Facts, HeaderNames
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.compression import DECOMPRESSED_LIMIT
from kompat.types import Buffer

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size  # 61
LOG_OVERHEAD = 12  # base offset and length, which the length does not count
CRC_START = 21  # the CRC covers attributes onward; what lies before may be rewritten
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_NAMES = HeaderNames([])

_BASE_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")

# Where in the header its fields lie, for those who look at one of them without reading all.
LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = CRC_START
FLAGS_AT = 22  # the lower byte of the attributes, which has all of them
MAX_TIMESTAMP_AT = 35
COUNT_AT = 57
SHORTEST_LENGTH = 14  # of the oldest format: what Kafka takes for the least possible


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """0: the records carry their own timestamps; 1: all have the batch's, given by the broker."""
        return 1 if self.attributes & LOG_APPEND_TIME else 0

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """When the cleaner may drop the batch's tombstones; it is kept in the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


class RecordError(KafkaError):
    """A batch refused for some of its records: Produce answers with their indices."""

    def __init__(self, code: ErrorCode, message: str, indices: Sequence[int]) -> None:
        super().__init__(code, message)
        self.indices = indices


class TooLargeError(KafkaError):
    """A batch that unpacks to more than the limit: of its records nothing is known."""


def refusal(error: _native.BatchError) -> KafkaError:
    """The client's error for what the native module found."""
    code, message, indices = error.args
    if isinstance(error, _native.BatchTooLarge):
        return TooLargeError(ErrorCode(code), message)
    if indices:
        return RecordError(ErrorCode(code), message, indices)
    return KafkaError(ErrorCode(code), message)


_unpack_header = HEADER.unpack_from
_new_tuple = tuple.__new__


def read_header(buffer: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`; the caller knows that HEADER_SIZE bytes are there."""
    return _new_tuple(BatchHeader, _unpack_header(buffer, pos))


def split_batches(buffer: memoryview) -> list[memoryview]:
    """The batches that lie in `buffer` one after the other and fill it.

    What is not that gets Kafka's error: INVALID_RECORD for a batch that is cut off or of an old format, which no retry
    can mend, else CORRUPT_MESSAGE. Kafka lets up to 16 bytes of rubbish follow a batch; here they are refused.
    """
    size = len(buffer)
    batches = []
    pos = 0
    while pos < size:
        end = _batch_end(buffer, pos, size)
        batches.append(buffer[pos:end] if pos or end != size else buffer)
        pos = end
    return batches


def _batch_end(buffer: memoryview, pos: int, size: int) -> int:
    if size - pos <= MAGIC_AT:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{size - pos} bytes are no record batch")
    length: int = _INT32.unpack_from(buffer, pos + LENGTH_AT)[0]
    if length < SHORTEST_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is too small")
    end = pos + LOG_OVERHEAD + length
    if end > size:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"batch length {length} is more than the {size - pos} bytes that are there"
        )
    magic = buffer[pos + MAGIC_AT]
    if magic > MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"magic {magic} is unknown")
    if magic < MAGIC:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"record batches must have magic 2, not {magic}")
    if length < HEADER_SIZE - LOG_OVERHEAD:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is less than a batch header")
    return end


def check_batch(
    batch: Buffer, *, require_keys: bool = False, limit: int = DECOMPRESSED_LIMIT, names: HeaderNames = NO_NAMES
) -> Facts:
    """Check one whole batch from a client: CRC, compression, every record; raises KafkaError.

    As Kafka, but stricter in two points: offset deltas must count up from 0 (Kafka looks only at compressed batches),
    and a compressed stream must end where the batch does. Where Kafka answers UNKNOWN_SERVER_ERROR because it did not
    expect such damage, this answers INVALID_RECORD, or UNSUPPORTED_COMPRESSION_TYPE for an unknown codec.

    `names`: of headers to look for; `Facts.named` tells which of them some record has.
    """
    try:
        return _native.check_batch(batch, require_keys, limit, names)
    except _native.BatchError as error:
        raise refusal(error) from None


def refused_records(
    batch: Buffer, *, require_keys: bool, times: tuple[int, int] | None, most: int
) -> tuple[int, bool, list[tuple[int, int | None]]]:
    """How many lack a key or have a time out of bounds, whether some have, and the first `most`: place and time (None: no key)."""
    try:
        return _native.refused_records(batch, DECOMPRESSED_LIMIT, require_keys, times, most)
    except _native.BatchError as error:
        raise refusal(error) from None


def find_by_timestamp(batch: Buffer, timestamp: int) -> tuple[int, int] | None:
    """Offset and timestamp of the first record at or after `timestamp`."""
    try:
        return _native.find_by_timestamp(batch, timestamp, DECOMPRESSED_LIMIT)
    except _native.BatchError as error:
        raise refusal(error) from None


_pack_base_offset = _BASE_OFFSET.pack_into
_pack_int32 = _INT32.pack_into


def stamp(batch: memoryview | bytearray, base_offset: int, leader_epoch: int) -> None:
    """Give the batch its place, in the bytes where it lies."""
    _pack_base_offset(batch, 0, base_offset)
    _pack_int32(batch, LEADER_EPOCH_AT, leader_epoch)


def set_log_append_time(batch: memoryview | bytearray, timestamp: int) -> None:
    """Make `timestamp` that of all records of the batch, in place."""
    attributes: int = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)[0]
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    set_max_timestamp(batch, timestamp)


def set_max_timestamp(batch: memoryview | bytearray, timestamp: int) -> None:
    """Correct the header's idea of the newest record, in place."""
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, timestamp)
    _CRC.pack_into(batch, CRC_AT, _native.crc32c(batch, CRC_START))
