"""In which words a producer's batch is refused where partitions have several replicas: those behind one that is to come again come after it."""

from __future__ import annotations

from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import Partition
from kompat.protocol.records import HEADER_SIZE, read_header
from kompat.types import Buffer

_FOR_NOW = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS)


def refusal(partition: Partition, records: Buffer | None, error: KafkaError) -> KafkaError:
    """What to tell; `error` is why the records are not appended."""
    replica = partition.replica
    if replica is None or records is None or len(records) < HEADER_SIZE:
        return error
    if error.code in _FOR_NOW:
        header = read_header(records)
        if header.producer_id >= 0:
            replica.refused(header.producer_id, header.producer_epoch, header.base_sequence)
    elif error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        header = read_header(records)
        expected = partition.producers.expected(header.producer_id, header.producer_epoch)
        if replica.has_refused(header.producer_id, header.producer_epoch, expected):
            return KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "a batch before it was refused, and has to come again first"
            )
    return error
