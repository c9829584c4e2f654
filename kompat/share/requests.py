"""Requests and results of the share service, independent of the wire protocol: REST and queue topics use them too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kompat.common.promise import Promise
from kompat.errors import KafkaError
from kompat.share.machine.messages import AcquiredSpan, AcquireMode
from kompat.types import Buffer, LogId


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    group_id: str
    member_id: str
    partitions: Sequence[LogId]  # in the order in which they are read
    max_records: int
    batch_size: int = 500
    max_bytes: int = 50 << 20
    min_bytes: int = 1
    max_wait_ms: int = 0
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


@dataclass(slots=True)
class FetchedPartition:
    """Records that the member acquired; `buffers` may contain others around them, which the client skips."""

    partition: LogId
    acquired: list[AcquiredSpan] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    size: int = 0  # of the buffers
    last_offset: int = -1  # of the last batch in them
    error: KafkaError | None = None


class Acknowledged(NamedTuple):
    """An acknowledgement in progress: it is valid when the promise is resolved."""

    partition: LogId
    promise: Promise[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedOffset:
    partition: int
    start_offset: int
    leader_epoch: int
    lag: int  # -1 if it is not known
