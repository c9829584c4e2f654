"""What a partition takes from a client, as Kafka's LogValidator judges it.

Exactly one batch, whole, with its checksum right, no larger than the topic allows, not a control batch, its counts in
agreement, its timestamps within the topic's limits, and on a compacted topic with a key on every record. What the
topic's settings demand of the stored batch (its codec, the broker's time) is done here too; the rest of the batch
stays as the client sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode, KafkaError
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
_LENGTH_AT = 8
_LOG_OVERHEAD = 12
_MAGIC_AT = 16
_MAGIC = 2
_SHORTEST_LENGTH = 14  # of the oldest format; less cannot be a batch of any
_APPEND_TIME = 0x08
_CONTROL = 0x20
_ATTRIBUTES = Struct(">h")
_ATTRIBUTES_AT = 21
_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
# Bytes before compression that are judged, and those that are packed anew, within two milliseconds.
_JUDGED_AT_ONCE = 4 * 1024 * 1024
_PACKED_AT_ONCE = 128 * 1024
_ERRORS_TOLD = 100  # of one batch: an answer must not be larger than the question


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
        if header.batch_length + _LOG_OVERHEAD == size and header.magic == _MAGIC:
            return records, header
    end = _batch_end(records, 0)
    if end is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the partition's records hold no whole batch")
    if records[_MAGIC_AT] != _MAGIC:
        raise KafkaError(ErrorCode.INVALID_RECORD, "record batches must have magic 2")
    if _batch_end(records, end) is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "only one record batch is allowed per partition")
    if end < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {end} bytes is shorter than its header")
    return records[:end], read_header(records)  # what follows is the beginning of a batch: Kafka cuts it off, too


def _batch_end(records: Writable, pos: int) -> int | None:
    """Where the batch at `pos` ends; None where there is no whole one."""
    left = len(records) - pos
    if left < _LOG_OVERHEAD:
        return None
    length: int = _LENGTH.unpack_from(records, pos + _LENGTH_AT)[0]
    if length < _SHORTEST_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is too small")
    if left <= _MAGIC_AT:
        return None
    if records[pos + _MAGIC_AT] > _MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"magic {records[pos + _MAGIC_AT]} is unknown")
    end = pos + _LOG_OVERHEAD + length
    return end if end <= len(records) else None


def most_at_once(header: BatchHeader, config: TopicConfig) -> int:
    """How many bytes, before compression, a batch may have for `prepare` to be no matter of a worker thread."""
    if config.compression_type == "producer" or codec_of(config, header.compression) == header.compression:
        return _JUDGED_AT_ONCE
    return _PACKED_AT_ONCE


def prepare(
    batch: Writable,
    header: BatchHeader,
    config: TopicConfig,
    now: Millis,
    names: HeaderNames = NO_NAMES,
    limit: int = DECOMPRESSED_LIMIT,
) -> tuple[Writable, BatchHeader, int]:
    """Judge a client's batch and bring it into the form that the topic's settings demand. Raises KafkaError.

    Also tells which of these names some record has a header of. TooLargeError: it unpacks to more than `limit`, and nothing was done.
    """
    size = len(batch)
    if size > config.max_message_bytes:
        raise _too_large(size, config)
    facts = check_batch(batch, names=names, limit=limit)
    if (
        header.record_count != header.last_offset_delta + 1
        or header.record_count <= 0
        or header.base_offset != 0
        or header.attributes & _CONTROL
        or (header.producer_id >= 0 and header.base_sequence < 0)
    ):
        _refuse_header(header)
    if config.compact and facts.null_key_index >= 0:
        _refuse_records(batch, config, now)
    if config.message_timestamp_type == "CreateTime":
        header = _check_timestamps(batch, header, facts, config, now)
        if config.compression_type == "producer":
            return batch, header, facts.named
    elif header.attributes & _APPEND_TIME:
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
    if newest == header.max_timestamp and not header.attributes & _APPEND_TIME:
        return header
    # Kafka puts right what a producer gets wrong here, the claim that the times are the broker's included.
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, header.attributes & ~_APPEND_TIME)
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
    """Say which of the header's fields a client must not send."""
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
    errors = [RefusedRecord(i, reason) for i in range(min(header.record_count, _ERRORS_TOLD))]
    raise InvalidRecordsError(ErrorCode.INVALID_TIMESTAMP, reason, errors)


def _refuse_records(batch: Writable, config: TopicConfig, now: Millis) -> None:
    """Find the records at fault. There may be none: a record without a timestamp has none that could be wrong."""
    low, high = now - config.message_timestamp_before_max_ms, now + config.message_timestamp_after_max_ms
    times = (low, high) if config.message_timestamp_type == "CreateTime" else None
    count, has_wrong_time, first = refused_records(batch, require_keys=config.compact, times=times, most=_ERRORS_TOLD)
    if count:
        errors = [RefusedRecord(index, _reason(timestamp, low, high)) for index, timestamp in first]
        code = ErrorCode.INVALID_TIMESTAMP if has_wrong_time else ErrorCode.INVALID_RECORD
        raise InvalidRecordsError(code, f"{count} of the batch's records were refused: {errors[0].message}", errors)


def _reason(timestamp: int | None, low: int, high: int) -> str:
    if timestamp is None:
        return "records of a compacted topic must have a key"
    return f"timestamp {timestamp} is not within [{low}, {high}]"
