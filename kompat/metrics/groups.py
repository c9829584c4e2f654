"""Groups and how far behind they are, and what share groups have under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kompat.extensions import queue_statistics

if TYPE_CHECKING:
    from kompat.handlers.services import Services
    from kompat.metrics.page import Page

LAG, OFFSET = "kompat_group_lag", "kompat_group_offset"


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
            log = services.logs.find(topic, partition)
            if log is not None:
                page.add(LAG, max(0, log.high_watermark - offset), *labels)
            yield


def gather_queues(page: Page, services: Services) -> Iterator[None]:
    """A group's records on all partitions of a topic together."""
    found: dict[tuple[str, str], list[queue_statistics.QueueStatistics]] = {}
    for live in list(services.shares.live):
        if not live.is_fenced:
            found.setdefault((live.key.group_id, live.log.topic), []).append(queue_statistics.count(live))
        yield
    for (group, topic), parts in found.items():
        total = queue_statistics.total(parts)
        for state in ("available", "in_flight", "backing_off", "being_buried"):
            page.add("kompat_queue_records", getattr(total, state), group, topic, state)
        yield
    page.add("kompat_dead_letters_total", services.shares.dead_letters_written)
    page.add("kompat_lane_released_total", services.meters.released())
    page.add("kompat_delayed_fired_total", services.meters.fired())
    recorder = services.tracer.recorder
    page.add("kompat_trace_events_total", recorder.written)
    page.add("kompat_trace_events_dropped_total", recorder.dropped)
