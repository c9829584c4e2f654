"""How deep a queue is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kompat.share.live import LivePartition
from kompat.share.machine.messages import RecordState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Of a group on a topic. Offsets are counted: what the log has no record for counts as available until it is come to."""

    available: int = 0  # can be acquired now, or has never been looked at
    in_flight: int = 0
    backing_off: int = 0  # released, and not to be had yet
    being_buried: int = 0  # given up; the dead letters are being written
    deliveries: dict[int, int] = field(default_factory=dict)  # how many that are not done with were delivered how often


def count(live: LivePartition) -> QueueStatistics:
    """Of one partition."""
    states: Counter[RecordState | None] = Counter()
    deliveries: Counter[int] = Counter()
    backing_off = tracked = 0
    for run in live.machine.runs():
        tracked += run.size
        states[run.state] += run.size
        if run.state in (RecordState.ACQUIRED, RecordState.AVAILABLE):
            deliveries[run.deliveries] += run.size
        if run.state is RecordState.AVAILABLE and run.until > live.now():
            backing_off += run.size
    states[None] = max(0, live.log.high_watermark - live.machine.start_offset - tracked)
    return QueueStatistics(
        available=states[None] + states[RecordState.AVAILABLE] - backing_off,
        in_flight=states[RecordState.ACQUIRED],
        backing_off=backing_off,
        being_buried=states[RecordState.ARCHIVING],
        deliveries=dict(sorted(deliveries.items())),
    )


def total(parts: Iterable[QueueStatistics]) -> QueueStatistics:
    found = list(parts)
    deliveries: Counter[int] = Counter()
    for each in found:
        deliveries.update(each.deliveries)
    return QueueStatistics(
        available=sum(each.available for each in found),
        in_flight=sum(each.in_flight for each in found),
        backing_off=sum(each.backing_off for each in found),
        being_buried=sum(each.being_buried for each in found),
        deliveries=dict(sorted(deliveries.items())),
    )


# -- as text -----------------------------------------------------------------------------------------------------------
def told(of: QueueStatistics) -> list[Any]:
    return [of.available, of.in_flight, of.backing_off, of.being_buried, list(of.deliveries.items())]


def read(told: Sequence[Any]) -> QueueStatistics:
    available, in_flight, backing_off, being_buried, deliveries = told
    return QueueStatistics(
        available=available,
        in_flight=in_flight,
        backing_off=backing_off,
        being_buried=being_buried,
        deliveries=dict(deliveries),
    )
