"""Metrics that clients have pushed (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kompat.handlers.support.services import Services
    from kompat.metrics.page import Page

METRIC = "kompat_client_metric"


def gather(page: Page, services: Services) -> Iterator[None]:
    clients = services.telemetry.clients
    page.add("kompat_client_pushes_total", clients.pushes)
    for code, count in list(clients.refused.items()):
        page.add("kompat_client_pushes_refused_total", count, code.name)
    count = 0
    for instance_id, instance in clients.all(services.clock.now()):
        count += 1
        if not page.has_room(METRIC):
            page.leave_out(METRIC, len(instance.values))
            continue
        for (metric, attributes), value in list(instance.values.items()):
            page.add(METRIC, value, instance.client_id, str(instance_id), metric, attributes)
        yield
    page.add("kompat_client_instances", count)
