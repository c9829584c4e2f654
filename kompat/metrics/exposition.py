"""The page that Prometheus scrapes. It is gathered in small steps, between which the event loop serves clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from kompat.metrics import clients, cluster, groups, http, process, requests, storage
from kompat.metrics.page import CONTENT_TYPE, MOST_SERIES, Page
from kompat.metrics.partitions import Walk
from kompat.metrics.queues import Queues

if TYPE_CHECKING:
    from kompat.handlers.support.services import Services

__all__ = ["CONTENT_TYPE", "Exposition"]

STEP_SECONDS = 0.002  # of work before other tasks get a turn
JOINED_AT_ONCE = 2_000  # lines


class Exposition:
    """The metrics page of one broker. A request during the gathering of a page gets that page."""

    def __init__(self, services: Services, most_series: int = MOST_SERIES) -> None:
        self._services = services
        self._most = most_series
        self._queues = Queues(services)
        self._seconds = 0.0  # duration of the last page
        self._gathering: asyncio.Task[bytes] | None = None

    async def render(self) -> bytes:
        if self._gathering is None or self._gathering.done():
            self._gathering = asyncio.ensure_future(self._render())
        return await asyncio.shield(self._gathering)  # a client that disconnects must not cancel it for others

    async def _render(self) -> bytes:
        begun = time.perf_counter()
        page = Page(self._most)
        await groups.look_up_ends(self._services)
        await _in_steps(self._gather(page))
        page.add("kompat_metrics_seconds", self._seconds)
        text = await _joined(page)
        self._seconds = time.perf_counter() - begun
        return text

    def _gather(self, page: Page) -> Iterator[None]:
        services = self._services
        return chain(
            requests.gather(page, services.meters),
            http.gather(page, services),
            Walk(page, services).gather(),
            cluster.gather(page, services),
            groups.gather(page, services),
            self._queues.gather(page),
            groups.gather_counters(page, services),
            storage.gather(page, services),
            clients.gather(page, services),
            process.gather(page, services),
        )


async def _in_steps(work: Iterator[None]) -> None:
    until = time.perf_counter() + STEP_SECONDS
    for _ in work:
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + STEP_SECONDS


async def _joined(page: Page) -> bytes:
    out = bytearray()
    lines: list[str] = []
    for line in page.lines():
        lines.append(line)
        if len(lines) >= JOINED_AT_ONCE:
            out += ("\n".join(lines) + "\n").encode()
            lines.clear()
            await asyncio.sleep(0)
    out += ("\n".join(lines) + "\n").encode()
    return bytes(out)
