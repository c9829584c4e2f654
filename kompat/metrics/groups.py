"""Groups and their lag."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kompat.metrics.page import MOST_SERIES
from kompat.types import LogId

if TYPE_CHECKING:
    from kompat.handlers.support.services import Services
    from kompat.metrics.page import Page

LAG, OFFSET = "kompat_group_lag", "kompat_group_offset"
AT_ONCE = 500  # offsets that are read before other tasks get a turn


async def look_up_ends(services: Services) -> None:
    """Look up the end offsets of remote partitions for the lag of groups that are coordinated here."""
    wanted: list[LogId] = []
    for machine in services.groups.coordinated():
        for count, (_, name, partition, _) in enumerate(machine.committed_offsets()[:MOST_SERIES]):
            if services.logs.find(name, partition) is None and (topic := services.cluster.topic(name)) is not None:
                wanted.append(LogId(topic.id, partition))
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)
    await services.ends.look_up(wanted[:MOST_SERIES])


def gather(page: Page, services: Services) -> Iterator[None]:
    machines = services.groups.coordinated()
    page.add("kompat_groups", sum(machine.group_count for machine in machines))
    for machine in machines:
        committed = machine.committed_offsets()
        for place, (group, topic, partition, offset) in enumerate(committed):
            if not page.has_room(OFFSET):
                page.leave_out(OFFSET, len(committed) - place)
                page.leave_out(LAG, len(committed) - place)
                break
            labels = group, topic, str(partition)
            page.add(OFFSET, offset, *labels)
            end = _end(services, topic, partition)
            if end is not None:
                page.add(LAG, max(0, end - offset), *labels)
            yield


def _end(services: Services, topic: str, partition: int) -> int | None:
    log = services.logs.find(topic, partition)
    if log is not None:
        return log.high_watermark
    found = services.cluster.topic(topic)
    return services.ends.of(LogId(found.id, partition)) if found is not None else None


def gather_counters(page: Page, services: Services) -> Iterator[None]:
    page.add("kompat_dead_letters_total", services.shares.dead_letters_written)
    page.add("kompat_lane_released_total", services.meters.released())
    page.add("kompat_delayed_delivered_total", services.meters.fired())
    traces = services.traces.statistics
    page.add("kompat_trace_events_total", traces.written)
    page.add("kompat_trace_events_dropped_total", traces.dropped)
    yield
