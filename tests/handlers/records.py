"""Records into a partition, without a client library."""

from __future__ import annotations

from kompat.protocol.records import Record, build_batch
from tests.handlers.conftest import Asker


def produce(
    ask: Asker, topic: str, timestamps: list[int], *, partition: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)
) -> int:
    """One batch with a record for each timestamp: its first offset. `producer`: id, epoch, first sequence."""
    producer_id, epoch, sequence = producer
    batch = build_batch(
        [Record(i, timestamp, None, b"value", []) for i, timestamp in enumerate(timestamps)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    data = [{"name": topic, "partition_data": [{"index": partition, "records": bytes(batch)}]}]
    answer = ask("Produce", 9, acks=-1, timeout_ms=1000, topic_data=data)
    [response] = answer.responses[0].partition_responses
    assert response.error_code == 0, response
    return int(response.base_offset)
