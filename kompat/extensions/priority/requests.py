"""Requests between brokers about records in lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kompat.rpc.messages import BrokerRequest, LeaderRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStatistics:
    depths: Sequence[int]  # records that wait, by class: the first are those of class 0
    undecided: int  # in open transactions
    size: int  # in bytes, of both

    @property
    def waiting(self) -> int:
        return sum(self.depths)


class DescribePartitionLanes(LeaderRequest[LaneStatistics], frozen=True):
    is_idempotent: ClassVar[bool] = True


class DescribeLanes(BrokerRequest[LaneStatistics], frozen=True):
    """Of one topic, or of all, as far as the broker leads their partitions."""

    topic: str | None = None


class ListLaneDepths(BrokerRequest[dict[str, dict[int, Sequence[int]]]], frozen=True):
    """By topic and partition what waits, by class, in partitions that the broker leads."""
