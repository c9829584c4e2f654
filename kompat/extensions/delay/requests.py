"""Requests between brokers about delayed records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kompat.protocol.records import Record
from kompat.rpc.messages import BrokerRequest, LeaderRequest
from kompat.types import Millis, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A delayed record."""

    topic: str
    partition: int
    slot: Offset
    due: Millis
    schedule_id: str | None
    record: Record  # as it was sent, at its slot
    is_undecided: bool  # part of an open transaction: it is not delivered before its end


@dataclass(frozen=True, slots=True)
class Page:
    items: Sequence[Scheduled]
    cursor: bytes | None  # where to continue; None: there are no more


class DueTimes(NamedTuple):
    times: Sequence[Millis]
    is_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayStatistics:
    waiting: int
    undecided: int  # in open transactions
    size: int  # in bytes, of both
    next_due: Millis | None


class ListDelayed(LeaderRequest[Page], frozen=True, kw_only=True):
    """The delayed records of a partition in the order of their due times: all, or those due in [since, until)."""

    is_idempotent: ClassVar[bool] = True

    cursor: bytes | None = None
    limit: int = 100
    since: Millis | None = None
    until: Millis | None = None


class FindDelayed(LeaderRequest[Scheduled | None], frozen=True):
    is_idempotent: ClassVar[bool] = True

    slot: Offset


class ListDueTimes(LeaderRequest[DueTimes], frozen=True):
    """The due times in [since, until) of a partition's records; no more than `limit`."""

    is_idempotent: ClassVar[bool] = True

    since: Millis
    until: Millis
    limit: int


class CancelDelayed(LeaderRequest[Scheduled], frozen=True):
    """Not idempotent: if the response was lost, a second attempt would find no such record."""

    slot: Offset


class RescheduleDelayed(LeaderRequest[Scheduled], frozen=True):
    """Not idempotent: what is due at once may be delivered before the second attempt."""

    slot: Offset
    due: Millis


class DescribeDelays(BrokerRequest[dict[str, DelayStatistics]], frozen=True):
    """The totals by topic, of partitions that the broker leads: of one topic, or of all with delayed records."""

    topic: str | None = None
