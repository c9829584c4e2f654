"""Validates the batches of clients, as Kafka's LogValidator does.

A partition's data in a request is exactly one batch, whole, with the right checksum and consistent counts, no larger than the
topic allows and not a control batch. Its timestamps are within the topic's limits, and on a compacted topic every record has
a key. What the
topic's configuration requires of the stored batch (its codec, the broker's time) is done here too; the rest of the batch
stays as the client sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.batch import (
    ATTRIBUTES_AT,
    CONTROL,
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SHORTEST_LENGTH,
)
from kompat.protocol.compression import DECOMPRESSED_LIMIT, Compression
from kompat.protocol.records import (
    HEADER_SIZE,
    NO_NAMES,
    BatchHeader,
    Facts,
    HeaderNames,
    check_batch,
    read_header,
    recompress,
    refused_records,
    set_log_append_time,
    set_max_timestamp,
)
from kompat.types import Millis

Writable = memoryview | bytearray

_LENGTH = Struct(">i")
_ATTRIBUTES = Struct(">h")
_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
# Bytes before compression that are validated, and that are compressed again, within two milliseconds.
_VALIDATED_AT_ONCE = 4 * 1024 * 1024
_PACKED_AT_ONCE = 128 * 1024
_MAX_RECORD_ERRORS = 100  # of one batch: a response must not be larger than its request


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    batch_index: int  # the record's place in the batch
    message: str


class InvalidRecordsError(KafkaError):
    """A batch refused because of some of its records."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[RefusedRecord]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def single_batch(records: Writable) -> tuple[Writable, BatchHeader]:
    """The one batch that a client may send to a partition at a time, and its header."""
    size = len(records)
    if size >= HEADER_SIZE:
        header = read_header(records)
        if header.batch_length + LOG_OVERHEAD == size and header.magic == MAGIC:
            return records, header
    end = _batch_end(records, 0)
    if end is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the partition's records hold no whole batch")
    if records[MAGIC_AT] != MAGIC:
        raise KafkaError(ErrorCode.INVALID_RECORD, "record batches must have magic 2")
    if _batch_end(records, end) is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "only one record batch is allowed per partition")
    if end < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {end} bytes is shorter than its header")
    return records[:end], read_header(records)  # what follows is the beginning of a batch: Kafka cuts it off, too


def _batch_end(records: Writable, pos: int) -> int | None:
    """Where the batch at `pos` ends; None where there is no whole one."""
    left = len(records) - pos
    if left < LOG_OVERHEAD:
        return None
    length: int = _LENGTH.unpack_from(records, pos + LENGTH_AT)[0]
    if length < SHORTEST_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is too small")
    if left <= MAGIC_AT:
        return None
    if records[pos + MAGIC_AT] > MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"magic {records[pos + MAGIC_AT]} is unknown")
    end = pos + LOG_OVERHEAD + length
    return end if end <= len(records) else None


def most_at_once(header: BatchHeader, config: TopicConfig) -> int:
    """How many bytes, before compression, a batch may have for `prepare` to be no matter of a worker thread."""
    if config.compression_type == "producer" or codec_of(config, header.compression) == header.compression:
        return _VALIDATED_AT_ONCE
    return _PACKED_AT_ONCE


def prepare(
    batch: Writable,
    header: BatchHeader,
    config: TopicConfig,
    now: Millis,
    names: HeaderNames = NO_NAMES,
    limit: int = DECOMPRESSED_LIMIT,
) -> tuple[Writable, BatchHeader, int]:
    """Validate a client's batch and bring it into the form that the topic's configuration requires. Raises KafkaError.

    Also returns which of the header names some record has. Raises TooLargeError, with nothing done, where it decompresses to
    more than `limit`.
    """
    size = len(batch)
    if size > config.max_message_bytes:
        raise _too_large(size, config)
    facts = check_batch(batch, names=names, limit=limit)
    if (
        header.record_count != header.last_offset_delta + 1
        or header.record_count <= 0
        or header.base_offset != 0
        or header.attributes & CONTROL
        or (header.producer_id >= 0 and header.base_sequence < 0)
    ):
        _refuse_header(header)
    if config.compact and facts.null_key_index >= 0:
        _refuse_records(batch, config, now)
    if config.message_timestamp_type == "CreateTime":
        header = _check_timestamps(batch, header, facts, config, now)
        if config.compression_type == "producer":
            return batch, header, facts.named
    elif header.attributes & LOG_APPEND_TIME:
        _refuse_claim(header)
    return *finish(_recompressed(batch, header, config), config, now), facts.named


def _check_timestamps(
    batch: Writable, header: BatchHeader, facts: Facts, config: TopicConfig, now: Millis
) -> BatchHeader:
    newest = facts.max_timestamp
    if (
        newest - now > config.message_timestamp_after_max_ms
        or now - facts.min_timestamp > config.message_timestamp_before_max_ms
    ):
        _refuse_records(batch, config, now)
    if newest == header.max_timestamp and not header.attributes & LOG_APPEND_TIME:
        return header
    # Kafka puts right what a producer gets wrong here, the claim that the times are the broker's included.
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, header.attributes & ~LOG_APPEND_TIME)
    set_max_timestamp(batch, newest)
    return read_header(batch)


def finish(batch: Writable, config: TopicConfig, now: Millis) -> tuple[Writable, BatchHeader]:
    """Give the batch the broker's time, where the topic wants that."""
    if config.message_timestamp_type != "CreateTime":
        set_log_append_time(batch, now)
    return batch, read_header(batch)


def codec_of(config: TopicConfig, producers: int) -> Compression:
    """The codec that a batch is stored with; `producers` is the one that its producer chose."""
    return _CODECS.get(config.compression_type, Compression(producers))


def _recompressed(batch: Writable, header: BatchHeader, config: TopicConfig) -> Writable:
    codec = codec_of(config, header.compression)
    if codec == header.compression:
        return batch
    changed = recompress(batch, codec, _level(codec, config))
    if len(changed) > config.max_message_bytes:
        raise _too_large(len(changed), config)
    return changed


def _level(codec: Compression, config: TopicConfig) -> int | None:
    if codec is Compression.GZIP:
        return config.compression_gzip_level
    if codec is Compression.LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec is Compression.ZSTD else None


def _too_large(size: int, config: TopicConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a batch of {size} bytes is larger than max.message.bytes ({config.max_message_bytes})",
    )


def _refuse_header(header: BatchHeader) -> None:
    """Raises KafkaError for a header that a client must not send."""
    if header.base_offset != 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a new batch must have base offset 0, not {header.base_offset}")
    if header.record_count != header.last_offset_delta + 1 or header.record_count <= 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"the batch declares {header.record_count} records and {header.last_offset_delta} as its last offset",
        )
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients must not write control batches")
    raise KafkaError(ErrorCode.INVALID_RECORD, f"sequence {header.base_sequence} of producer {header.producer_id}")


def _refuse_claim(header: BatchHeader) -> None:
    """Only where the broker gives the times does Kafka mind that a producer claims to have given the broker's."""
    reason = "a producer must not set the timestamp type to LogAppendTime"
    errors = [RefusedRecord(i, reason) for i in range(min(header.record_count, _MAX_RECORD_ERRORS))]
    raise InvalidRecordsError(ErrorCode.INVALID_TIMESTAMP, reason, errors)


def _refuse_records(batch: Writable, config: TopicConfig, now: Millis) -> None:
    """Find the records at fault. There may be none: a record without a timestamp has none that could be wrong."""
    low, high = now - config.message_timestamp_before_max_ms, now + config.message_timestamp_after_max_ms
    times = (low, high) if config.message_timestamp_type == "CreateTime" else None
    count, has_wrong_time, first = refused_records(
        batch, require_keys=config.compact, times=times, most=_MAX_RECORD_ERRORS
    )
    if count:
        errors = [RefusedRecord(index, _reason(timestamp, low, high)) for index, timestamp in first]
        code = ErrorCode.INVALID_TIMESTAMP if has_wrong_time else ErrorCode.INVALID_RECORD
        raise InvalidRecordsError(code, f"{count} of the batch's records were refused: {errors[0].message}", errors)


def _reason(timestamp: int | None, low: int, high: int) -> str:
    if timestamp is None:
        return "records of a compacted topic must have a key"
    return f"timestamp {timestamp} is not within [{low}, {high}]"
