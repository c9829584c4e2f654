"""Samples of the broker's counters, one a second, for charts. They cost some additions a second."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from kompat.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kompat.clock import Clock
    from kompat.common.meters import Histogram, Meters

SECONDS = 300  # that are kept
EVERY = 1.0
COUNTERS = ("messages_in", "messages_out", "bytes_in", "bytes_out", "requests", "errors")


class Totals(Struct, frozen=True):
    """Counters since the start of the broker."""

    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    requests: int
    errors: int


class Sample(Struct, frozen=True, rename="camel", kw_only=True):
    """One second. Latencies are in milliseconds; null if there was no such request."""

    at: int
    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    requests: int
    errors: int
    connections: int
    produce_p50: float | None
    produce_p99: float | None
    fetch_p50: float | None
    fetch_p99: float | None


class Sampler:
    def __init__(self, meters: Meters, clock: Clock) -> None:
        self._meters = meters
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._last = self.totals()
        self._latencies = {key: list(self._buckets(key)) for key in (ApiKey.Produce, ApiKey.Fetch)}
        self.samples: deque[Sample] = deque(maxlen=SECONDS)

    def start(self) -> None:
        self._timer = self._loop.call_later(EVERY, self._tick)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(EVERY, self._tick)
        self.take()

    def totals(self) -> Totals:
        topics, apis = self._meters.topics.values(), self._meters.apis.values()
        return Totals(
            messages_in=sum(topic.records_in for topic in topics),
            messages_out=sum(topic.records_out for topic in topics),
            bytes_in=sum(topic.bytes_in for topic in topics),
            bytes_out=sum(topic.bytes_out for topic in topics),
            requests=sum(api.count for api in apis),
            errors=sum(sum(api.errors.values()) for api in apis),
        )

    def take(self) -> None:
        now, before = self.totals(), self._last
        self._last = now
        # The counters of a deleted topic are gone: that is not negative traffic.
        counted = {name: max(0, getattr(now, name) - getattr(before, name)) for name in COUNTERS}
        produce, fetch = self._quantiles(ApiKey.Produce), self._quantiles(ApiKey.Fetch)
        self.samples.append(
            Sample(
                at=self._clock.now(),
                **counted,
                connections=self._meters.connections(),
                produce_p50=produce[0],
                produce_p99=produce[1],
                fetch_p50=fetch[0],
                fetch_p99=fetch[1],
            )
        )

    def _buckets(self, key: ApiKey) -> Sequence[int]:
        meter = self._meters.apis.get(key)
        return () if meter is None else meter.buckets

    def _quantiles(self, key: ApiKey) -> tuple[float | None, float | None]:
        """The quantiles of the requests since the last sample."""
        now, before = list(self._buckets(key)), self._latencies[key]
        self._latencies[key] = now
        meter = self._meters.apis.get(key)
        if meter is None:
            return None, None
        before = before or [0] * len(now)
        new = [new - old for new, old in zip(now, before, strict=True)]
        return quantile(meter, new, 0.5), quantile(meter, new, 0.99)


def quantile(histogram: Histogram, buckets: Sequence[int], share: float) -> float | None:
    """The quantile in milliseconds, interpolated within a bucket; None if nothing was counted."""
    total = sum(buckets)
    if total == 0:
        return None
    wanted, bounds = share * total, (0.0, *histogram.bounds)
    for index, reached in enumerate(accumulate(buckets)):
        if reached >= wanted:
            low = bounds[index]
            high = bounds[index + 1] if index + 1 < len(bounds) else low
            inside = (wanted - (reached - buckets[index])) / buckets[index]
            return round((low + (high - low) * inside) * 1000, 3)
    return None
