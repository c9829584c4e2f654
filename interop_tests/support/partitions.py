"""Whole partitions as consumers see them, where transactions leave gaps between offsets."""

import time

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from interop_tests.support.clients.confluent import consumer


def read_all(bootstrap: str, topic: str, partitions: int = 1, *, committed: bool = True) -> dict[int, list[str]]:
    """All values from the start to the end, by partition; the end of a read_committed consumer is the last stable offset."""
    isolation = "read_committed" if committed else "read_uncommitted"
    reader = consumer(bootstrap, **{"isolation.level": isolation, "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: dict[int, list[str]] = {index: [] for index in range(partitions)}
    ended: set[int] = set()
    deadline = time.monotonic() + 30
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"no end of {topic}: {found}"
        message = reader.poll(0.2)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append((message.value() or b"").decode())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise KafkaException(message.error())
    reader.close()
    return found


def last_stable_offset(bootstrap: str, topic: str, partition: int = 0) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest()}
    [future] = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED).values()
    return int(future.result(20).offset)
