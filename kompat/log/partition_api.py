"""What goes into a partition's methods and what comes out of them. Plain classes: one of each is made per request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from kompat.common.promise import Promise
from kompat.log.aborted import Aborted
from kompat.types import Buffer, LeaderEpoch, Millis, Offset


class Origin(IntEnum):
    """Where a batch comes from: a client's is validated, the broker's own is trusted.

    Only its owner appends to an internal topic. What the broker writes for clients (dead letters, delayed records, markers) goes
    to a topic that a client names, and so is refused there as a client's batch is.
    """

    CLIENT = 0
    INTERNAL = 1
    OWNER = 2


class Isolation(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(slots=True)
class Appended:
    base_offset: Offset
    last_offset: Offset
    log_append_time: Millis  # NO_TIMESTAMP where the records carry their own
    log_start_offset: Offset
    pending: Promise[None]  # done when the batch is committed, or refused
    written: Promise[None]  # done when it is in this broker's log: the same, where there are no other replicas


@dataclass(slots=True)
class ReadResult:
    buffers: list[Buffer]  # each holds one or more whole batches
    size: int
    next_offset: Offset  # where to go on reading
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted: list[Aborted] | None  # None: not requested


@dataclass(slots=True)
class FoundOffset:
    offset: Offset
    timestamp: Millis
    leader_epoch: LeaderEpoch
