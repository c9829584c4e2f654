"""Counters of the broker: plain numbers, which the event loop's thread adds to, and which any reader may look at.

What can be computed when the counters are read is computed there (kompat/metrics): a request costs two reads of the clock,
a search in a short tuple and a few additions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from time import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# Seconds. A request that waits for replicas, or for new records, takes long without being slow.
LATENCIES: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
MOST_TOPICS: Final = 1_000  # counted by name; later ones are counted together
SAMPLE_SECONDS: Final = 0.25
OTHER: Final = "(other)"  # not a valid topic name


class Histogram:
    """Durations by bucket."""

    __slots__ = ("bounds", "buckets", "seconds")

    def __init__(self, bounds: tuple[float, ...] = LATENCIES) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)  # the last bucket has what is longer than all bounds
        self.seconds = 0.0  # in total

    def took(self, seconds: float) -> None:
        self.seconds += seconds
        self.buckets[bisect_left(self.bounds, seconds)] += 1

    @property
    def count(self) -> int:
        return sum(self.buckets)


class ApiMeter(Histogram):
    """The requests of one API. A request that was answered by closing the connection counts as answered."""

    __slots__ = ("bytes_in", "bytes_out", "errors", "longest_stretch", "loop_seconds", "name")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.longest_stretch = 0.0  # seconds that a request has held the event loop without a break
        self.bytes_in = 0
        self.bytes_out = 0
        self.loop_seconds = 0.0  # that the event loop spent on these requests
        self.errors: dict[
            int, int
        ] = {}  # error codes in responses, counted for each partition, topic, … that has one; NONE is not counted

    def held(self, seconds: float) -> None:
        """Count the seconds that a request has held the event loop."""
        self.loop_seconds += seconds
        if seconds > self.longest_stretch:
            self.longest_stretch = seconds

    def failed(self, code: int) -> None:
        self.errors[code] = self.errors.get(code, 0) + 1


class HttpMeter(Histogram):
    """The HTTP requests of one route."""

    __slots__ = ("longest_stretch", "statuses")

    def __init__(self) -> None:
        super().__init__()
        self.longest_stretch = 0.0  # as in ApiMeter
        self.statuses: dict[int, int] = {}

    def held(self, seconds: float) -> None:
        if seconds > self.longest_stretch:
            self.longest_stretch = seconds

    def answered(self, status: int, seconds: float) -> None:
        self.took(seconds)
        self.statuses[status] = self.statuses.get(status, 0) + 1


class TopicMeter:
    """What clients have produced to and fetched from the partitions of a topic on this broker."""

    __slots__ = ("bytes_in", "bytes_out", "partitions", "records_in", "records_out", "records_unreadable")

    def __init__(self) -> None:
        self.partitions = 0  # that use this meter
        self.bytes_in = 0
        self.records_in = 0
        self.bytes_out = 0
        self.records_out = 0  # offsets: counting records would mean to decompress batches
        self.records_unreadable = 0  # that a coordinator has skipped in its internal topic


class Meters:
    """All meters of a broker."""

    def __init__(self) -> None:
        self.started = time()
        self._apis: dict[int, ApiMeter] = {}
        self._topics: dict[str, TopicMeter] = {}
        self._other = TopicMeter()
        self.internal: dict[str, TopicMeter] = {}  # of the broker's internal topics
        self.syncs = Histogram()  # fsyncs
        self.loop_lag = Histogram()
        self.http: dict[tuple[str, str], HttpMeter] = {}  # by method and route
        self.http_refused_logins = 0
        self.refused_logins: Callable[[], dict[str, int]] = dict  # by listener
        self.connections: Callable[[], int] = int
        self.connections_accepted: Callable[[], int] = int
        self.bytes_under_way: Callable[[], int] = int
        self.fired: Callable[[], int] = int  # delayed records that were delivered
        self.released: Callable[[], int] = int  # records that have left their lanes

    # -- requests --------------------------------------------------------------------------------------------------
    def api(self, key: int, name: str) -> ApiMeter:
        meter = self._apis.get(key)
        if meter is None:
            meter = self._apis[key] = ApiMeter(name)
        return meter

    @property
    def apis(self) -> Mapping[int, ApiMeter]:
        return self._apis

    def http_route(self, method: str, route: str) -> HttpMeter:
        return self.http.setdefault((method, route), HttpMeter())

    # -- topics ----------------------------------------------------------------------------------------------------
    def topic(self, name: str, *, is_internal: bool = False) -> TopicMeter:
        """The meter for a partition of the topic, until `leave`. Internal topics are few, and always counted by name."""
        meter = self._topics.get(name)
        if meter is None:
            meter = self._other
            if is_internal or len(self._topics) < MOST_TOPICS:
                meter = self._topics[name] = TopicMeter()
        meter.partitions += 1
        if is_internal:
            self.internal[name] = meter
        return meter

    def private(self, name: str) -> TopicMeter:
        """The meter for a log that does not belong to a topic."""
        return self.internal.setdefault(name, TopicMeter())

    def leave(self, name: str, meter: TopicMeter) -> None:
        """A partition is gone. The meter of a topic goes with its last partition."""
        meter.partitions -= 1
        if meter.partitions == 0 and self._topics.get(name) is meter:
            del self._topics[name]
            self.internal.pop(name, None)

    @property
    def topics(self) -> Mapping[str, TopicMeter]:
        """Meters by topic; OTHER is among them if any topics are counted together."""
        other = self._other
        return {**self._topics, OTHER: other} if other.partitions or other.bytes_in or other.bytes_out else self._topics


class LoopLag:
    """Measures how late the event loop runs a timer: all other work waits as long."""

    def __init__(self, histogram: Histogram, loop: AbstractEventLoop) -> None:
        self._histogram = histogram
        self._loop = loop
        self._sample()

    def _sample(self) -> None:
        self._due = self._loop.time() + SAMPLE_SECONDS
        self._timer = self._loop.call_later(SAMPLE_SECONDS, self._ring)

    def _ring(self) -> None:
        self._histogram.took(max(0.0, self._loop.time() - self._due))
        self._sample()

    def close(self) -> None:
        self._timer.cancel()
