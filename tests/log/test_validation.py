"""What a partition takes from a client, and what it says to the rest."""

import struct

import pytest

from kompat._native import crc32c
from kompat.errors import ErrorCode
from kompat.log.partition import Origin
from kompat.log.validation import InvalidRecordsError
from kompat.protocol.compression import Compression
from kompat.protocol.records import ControlType, Record, build_batch, control_batch, iterate, read_header
from tests.log.support import NOW, Log, batch, records_of

CODECS = list(Compression)


def patched(data: bytearray, at: int, layout: str, value: int) -> bytearray:
    """The batch with one header field changed and its CRC right again."""
    struct.pack_into(layout, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(data, 21))
    return data


def test_a_batch_is_stored_as_it_came_but_for_offset_and_leader_epoch() -> None:
    log = Log()
    log.append(b"first")
    sent = batch(b"a", b"b", base_offset=0)
    log.partition.lead(3)
    log.stage(bytearray(sent))
    log.commit.end_turn()

    stored = log.read(1).buffers[0]

    assert read_header(stored).base_offset == 1
    assert read_header(stored).leader_epoch == 3
    assert bytes(stored[16:]) == bytes(sent[16:])
    assert bytes(stored[8:12]) == bytes(sent[8:12])


def test_a_damaged_batch_is_corrupt() -> None:
    data = batch(b"value")
    data[-1] ^= 1
    assert Log().refuse(data).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [0, 5, 11, 16, 40, 60])
def test_less_than_a_batch_is_an_invalid_record(length: int) -> None:
    assert Log().refuse(batch(b"value")[:length]).code is ErrorCode.INVALID_RECORD


def test_a_batch_length_that_no_batch_can_have_is_corrupt() -> None:
    data = batch(b"value")
    struct.pack_into(">i", data, 8, 13)
    assert Log().refuse(data).code is ErrorCode.CORRUPT_MESSAGE


def test_two_batches_for_one_partition_are_refused() -> None:
    assert Log().refuse(batch(b"a") + batch(b"b")).code is ErrorCode.INVALID_RECORD


def test_the_beginning_of_a_second_batch_is_cut_off() -> None:
    log = Log()
    data = batch(b"a")
    log.stage(data + batch(b"b")[:30])
    log.commit.end_turn()
    assert log.read().size == len(data)


@pytest.mark.parametrize(
    ("magic", "code"), [(0, ErrorCode.INVALID_RECORD), (1, ErrorCode.INVALID_RECORD), (3, ErrorCode.CORRUPT_MESSAGE)]
)
def test_only_format_2_is_taken(magic: int, code: ErrorCode) -> None:
    data = batch(b"a")
    data[16] = magic
    assert Log().refuse(data).code is code


def test_a_batch_above_the_limit_is_too_large_and_one_at_the_limit_is_not() -> None:
    data = batch(b"x" * 100)
    log = Log(max_message_bytes=len(data))
    log.stage(bytearray(data))
    log.configure(max_message_bytes=len(data) - 1)
    assert log.refuse(data).code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_no_segment_can_hold_is_refused() -> None:
    log = Log(segment_bytes=100)
    assert log.refuse(batch(b"x" * 100)).code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_clients_do_not_write_control_batches() -> None:
    marker = control_batch(ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
    assert Log().refuse(marker).code is ErrorCode.INVALID_RECORD


def test_the_broker_writes_control_batches() -> None:
    log = Log()
    marker = control_batch(ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
    assert log.stage(marker, Origin.INTERNAL).base_offset == 0


@pytest.mark.parametrize("delta", [-1, 0, 2])
def test_a_last_offset_that_contradicts_the_count_is_refused(delta: int) -> None:
    assert Log().refuse(patched(batch(b"a", b"b"), 23, ">i", delta)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [-1, 0, 1, 3])
def test_a_count_that_contradicts_the_records_is_refused(count: int) -> None:
    assert Log().refuse(patched(batch(b"a", b"b"), 57, ">i", count)).code is ErrorCode.INVALID_RECORD


def test_a_base_offset_other_than_zero_is_refused() -> None:
    data = batch(b"a")
    struct.pack_into(">q", data, 0, 5)
    assert Log().refuse(data).code is ErrorCode.INVALID_RECORD


def test_a_producer_without_sequence_numbers_is_refused() -> None:
    assert Log().refuse(batch(b"a", producer_id=1, producer_epoch=0)).code is ErrorCode.INVALID_RECORD


def test_a_compacted_topic_refuses_records_without_key_and_names_them() -> None:
    data = build_batch([Record(0, NOW, b"k", b"v"), Record(1, NOW, None, b"v"), Record(2, NOW, None, b"v")])

    error = Log(compact=True, delete=False).refuse(data)

    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [e.batch_index for e in error.record_errors] == [1, 2]


def test_timestamps_outside_the_limits_are_refused_and_named() -> None:
    log = Log(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    times = [NOW, NOW - 1000, NOW - 1001, NOW + 500, NOW + 501, -1]
    data = build_batch([Record(i, t, None, b"v") for i, t in enumerate(times)])

    error = log.refuse(data)

    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [e.batch_index for e in error.record_errors] == [2, 4]


def test_a_record_without_timestamp_is_within_every_limit() -> None:
    log = Log(message_timestamp_before_max_ms=1000)
    assert log.append(b"v", timestamp=-1).base_offset == 0


def test_a_wrong_max_timestamp_is_put_right() -> None:
    log = Log()
    log.stage(patched(batch(b"a", timestamp=NOW), 35, ">q", NOW + 5))
    log.commit.end_turn()
    assert read_header(log.read().buffers[0]).max_timestamp == NOW


def test_a_claim_to_the_brokers_time_is_put_right() -> None:
    log = Log()
    log.append(b"a", b"b", timestamp_type=1, timestamp=NOW - 9)
    header = read_header(log.read().buffers[0])
    assert (header.timestamp_type, header.max_timestamp) == (0, NOW - 9)
    assert [r.timestamp for r in log.records()] == [NOW - 9] * 2
    assert header.crc == crc32c(log.read().buffers[0], 21)


def test_where_the_broker_gives_the_times_a_claim_to_them_is_refused() -> None:
    error = Log(message_timestamp_type="LogAppendTime").refuse(batch(b"a", b"b", timestamp_type=1))
    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [e.batch_index for e in error.record_errors] == [0, 1]


def test_missing_keys_and_bad_times_are_told_together() -> None:
    log = Log(compact=True, delete=False, message_timestamp_before_max_ms=1000)
    error = log.refuse(build_batch([Record(0, NOW - 2000, b"k", b""), Record(1, NOW, None, b"")]))
    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [e.batch_index for e in error.record_errors] == [0, 1]


def test_damaged_records_are_refused_without_naming_any() -> None:
    error = Log().refuse(patched(patched(batch(b"a", b"b"), 57, ">i", 3), 23, ">i", 2))
    assert error.code is ErrorCode.INVALID_RECORD
    assert not isinstance(error, InvalidRecordsError)


def test_log_append_time_gives_all_records_the_brokers_time() -> None:
    log = Log(message_timestamp_type="LogAppendTime")
    log.clock.advance(77)

    appended = log.append(b"a", b"b", timestamp=5)

    assert appended.log_append_time == NOW + 77
    assert [r.timestamp for r in log.records()] == [NOW + 77] * 2


def test_create_time_answers_no_append_time() -> None:
    assert Log().append(b"a").log_append_time == -1


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_batches_are_stored_in_the_codec_that_the_topic_demands(
    source: Compression, target: str, timestamp_type: str
) -> None:
    log = Log(compression_type=target, message_timestamp_type=timestamp_type)
    sent = batch(b"a" * 50, b"b" * 50, compression=source)
    log.append(b"first")
    log.stage(sent)
    log.commit.end_turn()

    result = log.read(1)

    wanted = {"producer": source, "uncompressed": Compression.NONE}.get(target)
    codec = wanted if wanted is not None else Compression[target.upper()]
    assert read_header(result.buffers[0]).compression == codec
    assert [(r.offset, r.value) for r in records_of(result)] == [(1, b"a" * 50), (2, b"b" * 50)]


def test_a_batch_that_grows_above_the_limit_by_recompression_is_too_large() -> None:
    data = batch(b"a" * 500, compression=Compression.ZSTD)
    log = Log(compression_type="uncompressed", max_message_bytes=len(data))
    assert log.refuse(data).code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_refused_batch_leaves_no_trace() -> None:
    log = Log()
    log.refuse(batch(b"a", b"b") + batch(b"c"))
    log.append(b"good")
    assert [list(iterate(b)) for b in log.read().buffers] == [[Record(0, NOW, b"key", b"good")]]
