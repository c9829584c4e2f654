"""WriteTxnMarkers."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.transactions import a_producer, latest


@pytest.mark.parametrize("version", [1, 2])
def test_an_operator_ends_a_transaction_that_hangs(prompt: Asker, version: int) -> None:
    topic = prompt.new_topic()
    producer = a_producer(prompt)
    producer.add(topic)
    producer.produce(topic)
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": topic, "partition_indexes": [0, 9]}, {"name": "no-such-topic", "partition_indexes": [0]}],
    }

    [told] = prompt("WriteTxnMarkers", version, markers=[marker]).markers

    assert told.producer_id == producer.id
    assert {each.name: [p.error_code for p in each.partitions] for each in told.topics} == {
        topic: [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        "no-such-topic": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    }
    assert latest(prompt, topic, committed=True) == 2
    older = {**marker, "producer_epoch": producer.epoch - 1, "topics": [{"name": topic, "partition_indexes": [0]}]}
    [refused] = prompt("WriteTxnMarkers", version, markers=[older]).markers
    assert refused.topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
