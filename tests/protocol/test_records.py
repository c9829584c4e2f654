"""Record batches: against kafka-python's builder and reader, and against damage of every kind."""

import gzip
import struct
import warnings
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat import _native
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.compression import compress, decompress
from kompat.protocol.records import (
    HEADER_SIZE,
    Compression,
    ControlType,
    HeaderNames,
    Record,
    RecordError,
    build_batch,
    check_batch,
    control_batch,
    control_type,
    empty_batch,
    find_by_timestamp,
    iterate,
    keep_records,
    read_header,
    recompress,
    set_log_append_time,
    set_max_timestamp,
    split_batches,
    stamp,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

NOW = 1_700_000_000_000
CODECS = list(Compression)
CRC_AT = 17

optional_bytes = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), optional_bytes), max_size=3)
bodies = st.lists(st.tuples(st.integers(-5000, 5000), optional_bytes, optional_bytes, headers), min_size=1, max_size=12)


def records_of(rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> list[Record]:
    return [Record(i, NOW + ts, key, value, tuple(hs)) for i, (ts, key, value, hs) in enumerate(rows)]


def some_records(count: int = 5) -> list[Record]:
    return [Record(i, NOW + i, b"k%d" % i, b"value" * 4, (("h", b"x"),)) for i in range(count)]


def resealed(batch: bytearray) -> bytearray:
    """With length and CRC made right again, so that only what lies behind them can be found wrong."""
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, CRC_AT, _native.crc32c(batch, 21))
    return batch


def refusal(batch: bytes | bytearray, *, require_keys: bool = False) -> KafkaError:
    with pytest.raises(KafkaError) as raised:
        check_batch(batch, require_keys=require_keys)
    return raised.value


# -- equal to kafka-python -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=25, deadline=None)
@given(rows=bodies)
def test_kafka_python_reads_what_is_built_here(codec: Compression, rows: list) -> None:
    records = records_of(rows)
    theirs = DefaultRecordBatch(bytes(build_batch(records, base_offset=0, compression=codec)))

    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=25, deadline=None)
@given(rows=bodies)
def test_what_kafka_python_builds_is_checked_and_read_here(codec: Compression, rows: list) -> None:
    records = records_of(rows)
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for r in records:
        builder.append(r.offset, r.timestamp, r.key, r.value, list(r.headers))
    batch = bytes(builder.build())

    facts = check_batch(batch)

    assert list(iterate(batch)) == records
    newest = max(r.timestamp for r in records)
    assert facts.max_timestamp == newest == read_header(batch).max_timestamp
    assert facts.delta_of_max_timestamp == next(r.offset for r in records if r.timestamp == newest)
    assert facts.min_timestamp == min(r.timestamp for r in records)
    assert facts.null_key_index == next((r.offset for r in records if r.key is None), -1)


def test_an_uncompressed_batch_is_byte_for_byte_kafka_pythons() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, True, 7, 3, 11, 1 << 20)
    for r in some_records():
        builder.append(r.offset, r.timestamp, r.key, r.value, list(r.headers))

    ours = build_batch(
        some_records(), producer_id=7, producer_epoch=3, base_sequence=11, is_transactional=True, leader_epoch=-1
    )

    theirs = bytearray(builder.build())
    stamp(theirs, 0, -1)
    assert ours == theirs


# -- headers, in place -----------------------------------------------------------------------------------------------
def test_a_header_says_what_the_batch_was_built_with() -> None:
    batch = build_batch(
        some_records(),
        base_offset=-10,
        compression=Compression.ZSTD,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        is_transactional=True,
        is_control=True,
        leader_epoch=8,
        timestamp_type=1,
    )
    header = read_header(b"xx" + batch, 2)

    assert (header.base_offset, header.last_offset, header.record_count, header.leader_epoch) == (-10, 4, 5, 8)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, 7)
    assert (header.compression, header.timestamp_type, header.magic) == (Compression.ZSTD, 1, 2)
    assert header.is_transactional
    assert header.is_control
    assert header.size == len(batch)
    assert header.delete_horizon is None


def test_a_stamp_moves_the_batch_and_leaves_its_crc_alone() -> None:
    frame = bytearray(b"prefix") + build_batch(some_records())
    batch = memoryview(frame)[6:]
    crc = read_header(batch).crc

    stamp(batch, 1_000_000, 42)

    check_batch(batch)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch, header.crc) == (1_000_000, 42, crc)
    assert [r.offset for r in iterate(batch)] == list(range(1_000_000, 1_000_005))


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_becomes_the_timestamp_of_every_record(codec: Compression) -> None:
    batch = build_batch(some_records(), compression=codec)

    set_log_append_time(batch, NOW + 99)

    check_batch(batch)
    assert read_header(batch).timestamp_type == 1
    assert {r.timestamp for r in iterate(batch)} == {NOW + 99}


def test_a_corrected_max_timestamp_leaves_the_batch_valid() -> None:
    batch = build_batch(some_records())
    set_max_timestamp(batch, NOW)

    check_batch(batch)
    assert read_header(batch).max_timestamp == NOW


# -- splitting -------------------------------------------------------------------------------------------------------
def test_batches_are_split_where_they_end() -> None:
    one, two = build_batch(some_records(1)), build_batch(some_records(7), compression=Compression.LZ4)

    assert [bytes(b) for b in split_batches(memoryview(one + two))] == [one, two]
    assert split_batches(memoryview(b"")) == []


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda b: b[:-1], ErrorCode.INVALID_RECORD),
        (lambda b: b[:10], ErrorCode.INVALID_RECORD),
        (lambda b: b + b"x", ErrorCode.INVALID_RECORD),
        (lambda b: b[:8] + struct.pack(">i", -5) + b[12:], ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b[:8] + struct.pack(">i", 2**31 - 1) + b[12:], ErrorCode.INVALID_RECORD),
        (lambda b: b[:8] + struct.pack(">i", 20) + b[12:32], ErrorCode.CORRUPT_MESSAGE),
        (lambda b: b[:16] + b"\x01" + b[17:], ErrorCode.INVALID_RECORD),
        (lambda b: b[:16] + b"\x00" + b[17:], ErrorCode.INVALID_RECORD),
        (lambda b: b[:16] + b"\x03" + b[17:], ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_is_no_row_of_batches_is_not_split(damage, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        split_batches(memoryview(bytes(damage(bytes(build_batch(some_records()))))))
    assert raised.value.code is code


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=150))
def test_random_bytes_are_split_or_refused(data: bytes) -> None:
    try:
        split_batches(memoryview(data))
    except KafkaError:
        return


# -- damage ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", CODECS)
def test_any_changed_byte_is_noticed(codec: Compression) -> None:
    batch = build_batch(some_records(), compression=codec)
    outside_the_crc = {*range(8), *range(12, 16)}

    for at in range(len(batch)):
        if at not in outside_the_crc:
            damaged = bytearray(batch)
            damaged[at] ^= 0x10
            refusal(damaged)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damage_under_a_valid_crc_is_refused_or_harmless_and_nothing_else(codec: Compression, seed: int) -> None:
    rng = Random(seed)
    batch = build_batch(some_records(8), compression=codec)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(21, len(batch))
        if rng.random() < 0.5:
            batch[at] = rng.randrange(256)
        else:
            del batch[at : at + rng.randint(1, 4)]
        if len(batch) <= HEADER_SIZE:
            return
    resealed(batch)
    for work in (check_batch, lambda b: list(iterate(b)), lambda b: find_by_timestamp(b, NOW)):
        try:
            work(batch)
        except KafkaError:
            continue


@settings(max_examples=100, deadline=None)
@given(payload=st.binary(max_size=80), count=st.integers(-1, 40), codec=st.integers(0, 7))
def test_a_payload_of_random_bytes_is_refused_or_harmless(payload: bytes, count: int, codec: int) -> None:
    batch = build_batch(some_records(1))
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    batch[HEADER_SIZE:] = payload
    for work in (check_batch, lambda b: list(iterate(b)), lambda b: find_by_timestamp(b, NOW)):
        try:
            work(resealed(batch))
        except KafkaError:
            continue


def test_a_wrong_crc_is_corrupt() -> None:
    batch = build_batch(some_records())
    batch[-1] ^= 1

    assert refusal(batch).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [0, 1, HEADER_SIZE - 1])
def test_a_batch_shorter_than_its_header_is_corrupt(size: int) -> None:
    assert refusal(bytes(build_batch(some_records()))[:size]).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(("last_offset_delta", "count"), [(4, 4), (4, 6), (5, 5), (-1, 0), (4, -1), (4, 2**31 - 1)])
def test_count_and_last_offset_must_agree_with_the_records(last_offset_delta: int, count: int) -> None:
    batch = build_batch(some_records(5))
    struct.pack_into(">i", batch, 23, last_offset_delta)
    struct.pack_into(">i", batch, 57, count)

    assert refusal(resealed(batch)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("change", [1, -1])
def test_records_must_be_as_many_as_declared(change: int) -> None:
    batch = build_batch(some_records(5))
    struct.pack_into(">i", batch, 23, 4 + change)
    struct.pack_into(">i", batch, 57, 5 + change)

    assert refusal(resealed(batch)).code is ErrorCode.INVALID_RECORD


def test_offsets_that_do_not_follow_each_other_are_refused_by_index() -> None:
    records = some_records(4)
    records[2].offset, records[3].offset = 3, 2
    error = refusal(build_batch(records, last_offset_delta=3))

    assert isinstance(error, RecordError)
    assert (error.code, list(error.indices)) == (ErrorCode.INVALID_RECORD, [2])


def test_a_compacted_topic_refuses_every_record_without_a_key() -> None:
    records = some_records(5)
    records[1].key = records[4].key = None
    batch = build_batch(records)

    error = refusal(batch, require_keys=True)

    assert isinstance(error, RecordError)
    assert (error.code, list(error.indices)) == (ErrorCode.INVALID_RECORD, [1, 4])
    assert check_batch(batch).null_key_index == 1


def test_an_unknown_compression_type_is_named() -> None:
    batch = build_batch(some_records())
    struct.pack_into(">h", batch, 21, 6)

    assert refusal(resealed(batch)).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# -- compression -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=20, deadline=None)
@given(data=st.binary(max_size=300), times=st.integers(1, 2000))
def test_what_was_compressed_comes_back(codec: Compression, data: bytes, times: int) -> None:
    data *= times
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_decompression_bomb_is_refused(codec: Compression) -> None:
    bomb = compress(codec, bytes(3_000_000))

    with pytest.raises(KafkaError):
        decompress(codec, bomb, 2_999_999)
    assert len(decompress(codec, bomb, 3_000_000)) == 3_000_000


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("keep", [0, 1, 5, 30, -1])
def test_a_compressed_stream_that_is_cut_off_is_refused(codec: Compression, keep: int) -> None:
    data = Random(1).randbytes(500)
    with pytest.raises(KafkaError):
        decompress(codec, compress(codec, data)[:keep])


@pytest.mark.parametrize("codec", CODECS[1:])
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=100))
def test_random_bytes_are_decompressed_or_refused(codec: Compression, data: bytes) -> None:
    try:
        decompress(codec, data, 1_000_000)
    except KafkaError:
        return


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Compression.GZIP, [-1, 1, 9]), (Compression.LZ4, [1, 9, 17]), (Compression.ZSTD, [-131072, 1, 3, 22])],
)
def test_every_level_that_a_topic_may_ask_for_works(codec: Compression, levels: list[int]) -> None:
    data = b"a record like any other, " * 400
    for level in levels:
        assert decompress(codec, compress(codec, data, level)) == data


def test_snappy_may_be_raw_or_in_chunks_and_streams_may_follow_each_other() -> None:
    data = b"0123456789" * 10_000
    chunked = compress(Compression.SNAPPY, data)
    raw = b"\x05\x10hello"  # length 5, a literal of 5 bytes

    assert decompress(Compression.SNAPPY, raw) == b"hello"
    assert decompress(Compression.SNAPPY, chunked + chunked) == data + data


def test_gzip_of_the_standard_library_is_read() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"


# -- looking inside --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", CODECS)
def test_a_timestamp_is_found_at_the_first_record_that_reaches_it(codec: Compression) -> None:
    times = [10, 30, 20, 40]
    records = [Record(100 + i, NOW + t, None, b"v") for i, t in enumerate(times)]
    batch = build_batch(records, base_offset=100, compression=codec)

    assert find_by_timestamp(batch, NOW) == (100, NOW + 10)
    assert find_by_timestamp(batch, NOW + 15) == (101, NOW + 30)
    assert find_by_timestamp(batch, NOW + 40) == (103, NOW + 40)
    assert find_by_timestamp(batch, NOW + 41) is None


@pytest.mark.parametrize("codec", CODECS)
def test_headers_are_found_by_name_in_the_records_themselves(codec: Compression) -> None:
    headers = [(), (("trace", b"wanted"), ("x-delay", b"1")), (("priority", None),)]
    records = [Record(i, NOW, b"wanted", b"wanted", each) for i, each in enumerate(headers)]
    batch = build_batch(records, compression=codec)

    assert check_batch(batch, names=HeaderNames([b"absent", b"x-delay", b"wanted", b"priority"])).named == 0b1010
    assert check_batch(batch, names=HeaderNames([b"x-dela", b"x-delay1", b"X-Delay", b""])).named == 0
    assert check_batch(batch).named == 0


@pytest.mark.parametrize("codec", CODECS)
def test_only_records_with_headers_of_these_names_are_read(codec: Compression) -> None:
    headers = [(), (("trace", b"wanted"), ("x-delay", b"1")), (("priority", None),), (("X-Delay", b"2"),)]
    records = [Record(i, NOW, b"x-delay", b"v", each) for i, each in enumerate(headers)]
    batch = build_batch(records, compression=codec)

    assert list(iterate(batch, HeaderNames([b"x-delay", b"priority"]))) == records[1:3]
    assert list(iterate(batch, HeaderNames([b"absent"]))) == []


@pytest.mark.parametrize(
    ("flags", "is_found"),
    [
        ("00", False),
        ("01", True),
        ("02", False),
        ("03", True),
        ("0a", False),
        ("0b", True),
        ("0f", True),
        ("0B", False),
    ],
)
def test_a_trace_context_counts_only_where_it_is_sampled(flags: str, is_found: bool) -> None:
    names = HeaderNames([b"a", b"traceparent"], [b"traceparent"])
    value = f"00-{'4' * 32}-{'5' * 16}-{flags}".encode()
    batch = build_batch([Record(0, NOW, None, None, (("traceparent", value),))])

    assert check_batch(batch, names=names).named == (0b10 if is_found else 0)
    assert len(list(iterate(batch, names))) == int(is_found)


@pytest.mark.parametrize("value", [None, b"", b"1", b"00-4-5-01"])
def test_what_is_no_trace_context_does_not_count_as_one(value: bytes | None) -> None:
    batch = build_batch([Record(0, NOW, None, None, (("traceparent", value),))])

    assert check_batch(batch, names=HeaderNames([b"traceparent"], [b"traceparent"])).named == 0


def test_at_most_64_names_are_looked_for() -> None:
    batch = build_batch([Record(0, NOW, None, None, (("63", None),))])

    assert check_batch(batch, names=HeaderNames([str(i).encode() for i in range(64)])).named == 1 << 63
    with pytest.raises(ValueError, match="64"):
        HeaderNames([b"a"] * 65)


# -- rebuilding ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", CODECS)
def test_recompression_changes_nothing_but_the_bytes(codec: Compression) -> None:
    original = build_batch(some_records(), base_offset=-3, compression=Compression.SNAPPY, producer_id=9)

    again = recompress(original, codec)

    check_batch_like = read_header(again)
    assert check_batch_like.compression == codec
    assert check_batch_like.producer_id == 9
    assert list(iterate(again)) == list(iterate(original))


@pytest.mark.parametrize("codec", CODECS)
def test_kept_records_keep_their_offsets_and_the_batch_its_end(codec: Compression) -> None:
    records = some_records(6)
    batch = build_batch(records, compression=codec, producer_id=3, producer_epoch=1, base_sequence=50)

    kept = keep_records(batch, lambda record: record.offset in (1, 4))

    assert kept is not None
    assert list(iterate(kept)) == [records[1], records[4]]
    before, after = read_header(batch), read_header(kept)
    assert (after.base_offset, after.last_offset, after.record_count) == (0, before.last_offset, 2)
    assert (after.producer_id, after.base_sequence, after.compression) == (3, 50, codec)
    assert after.crc == _native.crc32c(kept, 21)
    assert after.max_timestamp == records[4].timestamp


def test_a_batch_of_which_all_is_kept_stays_as_it_is() -> None:
    batch = build_batch(some_records(), compression=Compression.ZSTD)

    assert keep_records(batch, lambda _: True) == batch
    assert keep_records(batch, lambda _: False) is None


def test_a_delete_horizon_is_marked_once_and_moves_no_timestamp() -> None:
    records = some_records()
    batch = build_batch(records)

    marked = keep_records(batch, lambda _: True, delete_horizon=NOW + 500)
    assert marked is not None
    again = keep_records(marked, lambda _: True, delete_horizon=NOW + 900)

    assert again == marked
    assert read_header(marked).delete_horizon == NOW + 500
    assert list(iterate(marked)) == records


def test_an_empty_batch_keeps_offsets_and_producer() -> None:
    header = read_header(build_batch(some_records(), base_offset=-7, compression=Compression.LZ4, producer_id=4))
    empty = empty_batch(header)
    after = read_header(empty)

    assert len(empty) == HEADER_SIZE
    assert list(iterate(empty)) == []
    assert (after.base_offset, after.last_offset, after.producer_id, after.record_count) == (-7, 4, 4, 0)


@pytest.mark.parametrize("kind", list(ControlType))
def test_a_marker_says_how_its_transaction_ended(kind: ControlType) -> None:
    batch = control_batch(kind, producer_id=1, producer_epoch=2, coordinator_epoch=3, timestamp=NOW, base_offset=44)
    [record] = iterate(batch)

    check_batch(batch)
    assert control_type(batch) is kind
    assert record == Record(44, NOW, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 3))
    assert read_header(batch).is_control


def test_records_too_far_from_the_base_offset_cannot_be_in_one_batch() -> None:
    with pytest.raises(KafkaError):
        build_batch([Record(0, NOW, None, None), Record(2**32, NOW, None, None)])
