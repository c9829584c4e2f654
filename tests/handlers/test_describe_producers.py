"""DescribeProducers."""

from __future__ import annotations

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.records import produce
from tests.handlers.topic_with_records import NOW


def test_the_producers_of_a_partition_are_told(ask: Asker) -> None:
    name = ask.new_topic()
    produce(ask, name, [NOW, NOW + 1], producer=(4444, 1, 0))
    produce(ask, name, [NOW + 2], producer=(4444, 1, 2))

    [topic] = ask("DescribeProducers", 0, topics=[{"name": name, "partition_indexes": [0]}]).topics

    [producer] = topic.partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (4444, 1, 2)
    assert (producer.last_timestamp, producer.coordinator_epoch, producer.current_txn_start_offset) == (NOW + 2, -1, -1)


def test_producers_of_what_does_not_exist_are_refused(ask: Asker) -> None:
    name = ask.new_topic()
    asked = [{"name": n, "partition_indexes": [9]} for n in (name, "nope", "bad name")]

    topics = ask("DescribeProducers", 0, topics=asked).topics

    assert [(t.partitions[0].error_code, t.partitions[0].error_message is None) for t in topics] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, False),
    ]
