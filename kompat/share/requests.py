"""What callers of the service hand in and get back. They know nothing of the wire: REST and queue topics call too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kompat.errors import KafkaError
from kompat.log.commit import Pending
from kompat.share.machine.messages import AcquiredSpan, AcquireMode
from kompat.types import Buffer


class TopicIdPartition(NamedTuple):
    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    group_id: str
    member_id: str
    partitions: Sequence[TopicIdPartition]  # in the order in which they are looked at
    max_records: int
    batch_size: int = 500
    max_bytes: int = 50 << 20
    min_bytes: int = 1
    max_wait_ms: int = 0
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


@dataclass(slots=True)
class FetchedPartition:
    """Records that the member holds now; `buffers` may hold others around them, which it has to pass over."""

    partition: TopicIdPartition
    acquired: list[AcquiredSpan] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    size: int = 0  # of the buffers
    last_offset: int = -1  # of the last batch in them
    error: KafkaError | None = None


class Acknowledged(NamedTuple):
    """An acknowledgement under way: it counts when the promise is kept, and has failed where that has an error."""

    partition: TopicIdPartition
    promise: Pending


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedOffset:
    partition: int
    start_offset: int
    leader_epoch: int
    lag: int  # -1 where it is not known
