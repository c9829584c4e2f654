"""HTTP requests, and on all listeners failed authentications and throttling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kompat.metrics.page import Page

if TYPE_CHECKING:
    from kompat.handlers.support.services import Services

HTTP = "HTTP"  # as a listener's name


def gather(page: Page, services: Services) -> Iterator[None]:
    meters = services.meters
    for (method, route), meter in list(meters.http.items()):
        page.add_histogram("kompat_http_request_seconds", meter, method, route)
        page.add("kompat_http_loop_seconds_max", meter.longest_stretch, method, route)
        for status, count in list(meter.statuses.items()):
            page.add("kompat_http_requests_total", count, method, route, str(status))
        yield
    refused = meters.refused_logins() | {HTTP: meters.http_refused_logins}
    for listener in dict.fromkeys([*(each.name for each in services.config.listeners), HTTP]):
        page.add("kompat_failed_authentications_total", refused.get(listener, 0), listener)
    for quota, waits in services.quotas.waits.items():
        page.add("kompat_quota_throttles_total", waits.count, quota)
        page.add("kompat_quota_throttle_seconds_total", waits.ms / 1000, quota)
    yield
