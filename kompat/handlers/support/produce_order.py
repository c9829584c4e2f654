"""Chooses the error of a rejected batch: batches behind one that the producer has to retry are retried after it.

It holds where partitions have several replicas, where a leader may change between two batches, and where the disk has
refused one of them and takes the next.
"""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition
from kompat.protocol.records import HEADER_SIZE, read_header
from kompat.types import Buffer

_FOR_NOW = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)


def refusal(partition: Partition, records: Buffer | None, error: KafkaError) -> KafkaError:
    """What to answer; `error` is why the records are not appended, or not committed."""
    if records is None or len(records) < HEADER_SIZE:
        return error
    if error.code in _FOR_NOW:
        header = read_header(records)
        if header.producer_id >= 0:
            partition.refused(header.producer_id, header.producer_epoch, header.base_sequence)
    elif error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        header = read_header(records)
        expected = partition.producers.expected(header.producer_id, header.producer_epoch)
        if partition.has_refused(header.producer_id, header.producer_epoch, expected):
            return KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "a batch before it was refused, and has to come again first"
            )
    return error
