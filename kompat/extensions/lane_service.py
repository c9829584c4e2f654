"""Looking at what waits in the lanes of topics that are delivered by priority."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.intake import PartitionIntake
from kompat.extensions.lane_release import Releases
from kompat.extensions.lanes import CLASSES, Summary
from kompat.log.manager import Logs


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStatistics:
    depths: Sequence[int]  # records that wait, by class: the first are those of class 0
    undecided: int  # in transactions that have not ended
    size: int  # in bytes, of both

    @property
    def waiting(self) -> int:
        return sum(self.depths)


class LaneService:
    def __init__(self, logs: Logs, releases: Releases) -> None:
        self._logs = logs
        self._releases = releases

    @property
    def released(self) -> int:
        """Records that have left their lanes since the broker started."""
        return self._releases.released

    def of_partition(self, topic: str, partition: int) -> LaneStatistics:
        found = self._logs.find(topic, partition)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not found.is_led:
            reason = f"another broker leads partition {partition} of {topic}"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        return _total([found.intake.lanes.summary] if isinstance(found.intake, PartitionIntake) else [])

    def statistics(self, topic: str | None = None) -> LaneStatistics:
        """Of one topic, or of all, as far as this broker leads their partitions."""
        return _total([each.lanes.summary for each in self._intakes() if topic in (None, each.partition.topic)])

    def by_partition(self) -> dict[str, dict[int, Sequence[int]]]:
        """What waits by class, in each partition that has some, as far as this broker leads it."""
        found: dict[str, dict[int, Sequence[int]]] = {}
        for each in self._intakes():
            depths = _total([each.lanes.summary]).depths
            if any(depths):
                found.setdefault(each.partition.topic, {})[each.partition.index] = depths
        return found

    def _intakes(self) -> Iterator[PartitionIntake]:
        return (log.intake for log in self._logs.all() if log.is_led and isinstance(log.intake, PartitionIntake))


def _total(found: Sequence[Summary]) -> LaneStatistics:
    return LaneStatistics(
        depths=[sum(each.lanes[priority].count for each in found) for priority in range(CLASSES)],
        undecided=sum(each.undecided for each in found),
        size=sum(each.size for each in found),
    )
