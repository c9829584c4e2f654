"""Where a key's home is: as Apache Kafka computes it, so that a topic taken over from it is read right."""

import pytest

from kompat.coordination.shards import home_of


# Computed with Java: Math.abs(key.hashCode()) % 50.
@pytest.mark.parametrize(
    ("key", "home"), [("", 0), ("a", 47), ("group", 47), ("polygenelubricants", 0), ("Ünïcödé-☃", 11), ("😀", 49)]
)
def test_a_key_lives_where_kafka_puts_it(key: str, home: int) -> None:
    assert home_of(key, 50) == home
