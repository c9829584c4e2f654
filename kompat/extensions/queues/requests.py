"""Requests for queues to the leaders of share partitions: wait for records, acquire and acknowledge them.

Waiting and acquiring are two steps, so that a client that has stopped waiting acquires nothing. Both are for all partitions
of a topic with the same leader, and go to the leader of the first; it leaves out those that it does not lead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from kompat.errors import KafkaError
from kompat.extensions.queues.statistics import QueueStatistics
from kompat.protocol.records import Record
from kompat.rpc.messages import LeaderRequest
from kompat.share.machine.messages import AckType
from kompat.share.receipts import Receipt

LONGEST_WAIT = 5.0  # seconds of one WaitForRecords: then it is sent again


class WaitForRecords(LeaderRequest[bool], frozen=True):
    """Wait until the group may acquire something, or for the timeout; returns which of both it was."""

    patience: ClassVar[float] = 0.0  # the caller checks all partitions again
    is_idempotent: ClassVar[bool] = True
    is_long_poll: ClassVar[bool] = True

    group_id: str
    partitions: Sequence[int]
    seconds: float
    begin: str | None = None  # where a new group starts; None: by its settings


class Acquired(NamedTuple):
    lock_ms: int
    records: Sequence[tuple[Receipt, Record]]


class AcquireRecords(LeaderRequest[Acquired], frozen=True, kw_only=True):
    """The available records. Not idempotent: if the response is lost, its records are locked until the lock expires."""

    patience: ClassVar[float] = 0.0  # there are other partitions

    group_id: str
    partitions: Sequence[int]
    lock: bytes
    max_records: int
    max_bytes: int
    lock_ms: int | None = None  # None: the group's setting
    begin: str | None = None  # where a new group starts; None: by its settings


class ReceiptAcknowledgement(NamedTuple):
    receipt: Receipt
    kind: AckType
    wait_ms: int | None = None
    reason: str | None = None  # why it is rejected


class AcknowledgeRecords(LeaderRequest[list[KafkaError | None]], frozen=True):
    """Of one group and partition: for each in order why it is not valid, if so.

    Not idempotent: a record that was released may have been delivered to another client before the second attempt.
    """

    acknowledgements: Sequence[ReceiptAcknowledgement]
    all_or_none: bool  # if one is not valid, none is applied


class DescribeQueue(LeaderRequest[QueueStatistics], frozen=True):
    """All zero if the group does not exist."""

    is_idempotent: ClassVar[bool] = True

    group_id: str
