"""Requests, connections, and the records and bytes of topics."""

from __future__ import annotations

from collections.abc import Iterator

from kompat.common.meters import Meters
from kompat.errors import ErrorCode
from kompat.metrics.page import Page


def gather(page: Page, meters: Meters) -> Iterator[None]:
    page.add("kompat_connections", meters.connections())
    page.add("kompat_connections_accepted_total", meters.connections_accepted())
    page.add("kompat_request_bytes_in_flight", meters.bytes_under_way())
    for meter in list(meters.apis.values()):
        if not meter.bytes_in:  # it has had no request
            continue
        page.add("kompat_requests_total", meter.count, meter.name)
        page.add_histogram("kompat_request_seconds", meter, meter.name)
        page.add("kompat_request_loop_seconds_total", meter.loop_seconds, meter.name)
        page.add("kompat_request_loop_seconds_max", meter.longest_stretch, meter.name)
        page.add("kompat_request_bytes_total", meter.bytes_in, meter.name)
        page.add("kompat_response_bytes_total", meter.bytes_out, meter.name)
        for code, count in list(meter.errors.items()):
            page.add("kompat_request_errors_total", count, meter.name, error_name(code))
        yield
    for name, topic in list(meters.topics.items()):
        page.add("kompat_topic_bytes_in_total", topic.bytes_in, name)
        page.add("kompat_topic_records_in_total", topic.records_in, name)
        page.add("kompat_topic_bytes_out_total", topic.bytes_out, name)
        page.add("kompat_topic_records_out_total", topic.records_out, name)
        yield
    for name, topic in list(meters.internal.items()):
        page.add("kompat_unreadable_records_total", topic.records_unreadable, name)


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
