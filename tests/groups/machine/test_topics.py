"""The metadata hash is Kafka's: XXH3 over what the subscribed topics look like."""

from uuid import UUID

import pytest

from kompat._native import xxh3_64
from kompat.groups.machine.topics import MetadataHash, TopicInfo, TopicTable, topic_hash

TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 0x2D06800538D394C2),
        (2, 0x9093381C8763D62E),
        (6, 0x4B52CCDF373A518A),
        (12, 0x305C5BAE3681D0E0),
        (100, 0x6DBB812CF19D012E),
        (200, 0x7C64F3B17285E96A),
        (500, 0x7D2C2BBD2291462B),
        (3000, 0x6168BB188259CCCF),
    ],
)
def test_xxh3_agrees_with_the_reference_in_every_range_of_sizes(size: int, expected: int) -> None:
    assert xxh3_64(bytes(i * 7 % 256 for i in range(size))) == expected


@pytest.mark.parametrize(
    ("name", "partitions", "racks", "expected"),
    [
        ("orders", 3, (), 3653115502262934565),
        ("orders", 3, ("us", "eu-1"), 6314428098534380684),
        ("t", 1, (), -3545285224434551672),
        ("long-topic-name", 200, (), 1183941888710647848),
    ],
)
def test_the_hash_of_a_topic_is_the_one_kafka_computes(
    name: str, partitions: int, racks: tuple[str, ...], expected: int
) -> None:
    topic = TopicInfo(name=name, topic_id=TOPIC_ID, partitions=partitions, racks=(racks,) * partitions)

    assert topic_hash(topic) == expected % 2**64


def test_the_hash_of_a_group_is_the_one_a_real_broker_wrote() -> None:
    topics = TopicTable(
        [
            TopicInfo(name="gl-e1df3c", topic_id=UUID("d26b051c-155b-4d21-95bc-31c5f8c2a763"), partitions=6),
            TopicInfo(name="gl-e1df3c-x", topic_id=UUID("8bd58e50-d23a-44b4-9b5e-6e5bc2d7ee27"), partitions=3),
        ]
    )
    hashes = MetadataHash()

    assert hashes.of(["gl-e1df3c"], topics) == 5396864893499506285
    assert hashes.of(["gl-e1df3c-x", "gl-e1df3c"], topics) == 8188138867886686091


def test_topics_that_do_not_exist_leave_the_hash_alone() -> None:
    topics = TopicTable([TopicInfo(name="t", topic_id=TOPIC_ID, partitions=1)])
    hashes = MetadataHash()

    assert hashes.of(["t", "missing"], topics) == hashes.of(["t"], topics) != 0
    assert hashes.of(["missing"], topics) == 0


def test_a_forgotten_topic_is_hashed_anew() -> None:
    hashes = MetadataHash()
    before = hashes.of(["t"], TopicTable([TopicInfo(name="t", topic_id=TOPIC_ID, partitions=1)]))
    grown = TopicTable([TopicInfo(name="t", topic_id=TOPIC_ID, partitions=2)])

    assert hashes.of(["t"], grown) == before
    hashes.forget(["t"])
    assert hashes.of(["t"], grown) != before
