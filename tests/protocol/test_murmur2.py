import pytest

from kompat.protocol.murmur2 import murmur2, partition_of


# Of Apache Kafka's own tests of its hash (signed there).
@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_java(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


def test_a_key_has_its_place_among_any_number_of_partitions() -> None:
    assert [partition_of(b"21", count) for count in (1, 2, 3)] == [0, 0, (0x7FFFFFFF & (-973932308)) % 3]
