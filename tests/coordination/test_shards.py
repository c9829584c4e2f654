"""Which partition a key belongs to: as Apache Kafka computes it, so that a topic taken over from it is read right."""

import pytest

from kompat.coordination.shards import partition_for


# Computed with Java: Math.abs(key.hashCode()) % 50.
@pytest.mark.parametrize(
    ("key", "partition"), [("", 0), ("a", 47), ("group", 47), ("polygenelubricants", 0), ("Ünïcödé-☃", 11), ("😀", 49)]
)
def test_a_key_lives_where_kafka_puts_it(key: str, partition: int) -> None:
    assert partition_for(key, 50) == partition
