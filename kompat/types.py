"""Names for the numbers and ids that cross module boundaries."""

from dataclasses import dataclass
from typing import NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)
Millis = NewType("Millis", int)  # since the epoch, or a span of time
LeaderEpoch = NewType("LeaderEpoch", int)  # equals the Raft term
RaftIndex = NewType("RaftIndex", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
NodeId = NewType("NodeId", int)

NO_PRODUCER = ProducerId(-1)
NO_TIMESTAMP = Millis(-1)
ZERO_UUID = UUID(int=0)

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LogId(NamedTuple):
    """The identity of a partition's log: unlike a topic's name, a topic id is never reused after a delete."""

    topic_id: UUID
    partition: int

    @property
    def key(self) -> bytes:
        return self.topic_id.bytes + self.partition.to_bytes(4, "big")

    @classmethod
    def of_key(cls, key: bytes) -> "LogId":
        return cls(UUID(bytes=key[:16]), int.from_bytes(key[16:20], "big"))

    def __str__(self) -> str:
        return f"{self.topic_id.hex}-{self.partition}"
