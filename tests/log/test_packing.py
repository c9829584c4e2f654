"""Batches of records that the broker itself writes."""

from hypothesis import given
from hypothesis import strategies as st

from kompat.config.topic import TopicConfig
from kompat.log.packing import BATCH_BYTES, batch_limit, codec_for, packed, size_of
from kompat.protocol.records import HEADER_SIZE, Compression, Record, build_batch

PARTS = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=40), PARTS), max_size=4)
RECORDS = st.builds(Record, st.just(0), st.integers(0, 2**62), PARTS, PARTS, HEADERS)


@given(st.lists(RECORDS, min_size=1, max_size=20), st.integers(1, 2000))
def test_batches_keep_all_records_in_order_and_are_no_larger_than_their_limit(
    records: list[Record], limit: int
) -> None:
    parts = list(packed(records, lambda record: record, limit))

    assert [record for part in parts for record in part] == records
    for part in parts:
        batch = build_batch([Record(i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(part)])
        assert len(batch) <= sum(map(size_of, part)) + HEADER_SIZE
        assert len(part) == 1 or len(batch) <= limit + HEADER_SIZE


def test_a_batch_is_no_larger_than_the_topic_allows() -> None:
    assert batch_limit(TopicConfig()) + HEADER_SIZE == BATCH_BYTES
    assert batch_limit(TopicConfig(max_message_bytes=1000)) + HEADER_SIZE == 1000
    assert batch_limit(TopicConfig(max_message_bytes=0)) == 1


def test_the_topics_codec_goes_before_that_of_most_bytes() -> None:
    came = [(Compression.NONE, 10), (Compression.LZ4, 6), (Compression.LZ4, 6)]

    assert codec_for(TopicConfig(), came) is Compression.LZ4
    assert codec_for(TopicConfig(compression_type="gzip"), came) is Compression.GZIP
    assert codec_for(TopicConfig(), []) is Compression.NONE
