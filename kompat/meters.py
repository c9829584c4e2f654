"""What the broker counts while it works: plain numbers, added to on the event loop's thread, read by whoever asks.

Nothing is computed here that can be computed when somebody looks (kompat/metrics): a request costs two looks at the clock,
a search in a short tuple and a few additions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from time import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# Seconds. A request that waits for others to write, or for records to come, takes long without being slow.
LATENCIES: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
MOST_TOPICS: Final = 1_000  # counted by name; those that come later are counted together
SAMPLE_SECONDS: Final = 0.25
OTHER: Final = "(other)"  # no topic can be called so


class Histogram:
    """How often something took how long."""

    __slots__ = ("bounds", "buckets", "seconds")

    def __init__(self, bounds: tuple[float, ...] = LATENCIES) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)  # the last: longer than all bounds
        self.seconds = 0.0  # in all

    def took(self, seconds: float) -> None:
        self.seconds += seconds
        self.buckets[bisect_left(self.bounds, seconds)] += 1

    @property
    def count(self) -> int:
        return sum(self.buckets)


class ApiMeter(Histogram):
    """The requests of one API. One that was answered by closing the connection counts as answered."""

    __slots__ = ("bytes_in", "bytes_out", "errors", "longest_stretch", "loop_seconds", "name")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.longest_stretch = 0.0  # seconds for which a request has held the event loop without a break
        self.bytes_in = 0
        self.bytes_out = 0
        self.loop_seconds = 0.0  # in which the event loop did nothing else
        self.errors: dict[
            int, int
        ] = {}  # codes other than NONE in answers, one for each partition, topic, … that has one

    def held(self, seconds: float) -> None:
        """A request has held the event loop for so long."""
        self.loop_seconds += seconds
        if seconds > self.longest_stretch:
            self.longest_stretch = seconds

    def failed(self, code: int) -> None:
        self.errors[code] = self.errors.get(code, 0) + 1


class HttpMeter(Histogram):
    """The requests by HTTP to one route."""

    __slots__ = ("longest_stretch", "statuses")

    def __init__(self) -> None:
        super().__init__()
        self.longest_stretch = 0.0  # as of an API
        self.statuses: dict[int, int] = {}

    def held(self, seconds: float) -> None:
        if seconds > self.longest_stretch:
            self.longest_stretch = seconds

    def answered(self, status: int, seconds: float) -> None:
        self.took(seconds)
        self.statuses[status] = self.statuses.get(status, 0) + 1


class TopicMeter:
    """What clients have sent to and got from the partitions of a topic that were on this broker."""

    __slots__ = ("bytes_in", "bytes_out", "partitions", "records_in", "records_out", "records_unreadable")

    def __init__(self) -> None:
        self.partitions = 0  # that count here
        self.bytes_in = 0
        self.records_in = 0
        self.bytes_out = 0
        self.records_out = 0  # offsets, for nobody opens a batch to count
        self.records_unreadable = 0  # that a coordinator has skipped in its own topic


class Meters:
    """All of a broker's."""

    def __init__(self) -> None:
        self.started = time()
        self._apis: dict[int, ApiMeter] = {}
        self._topics: dict[str, TopicMeter] = {}
        self._other = TopicMeter()
        self.internal: dict[str, TopicMeter] = {}  # of the broker's own logs
        self.syncs = Histogram()  # of the disk
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
        """For a partition of the topic, until `leave`. Internal ones are few, and always counted by name."""
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
        """For a log that is no topic."""
        return self.internal.setdefault(name, TopicMeter())

    def leave(self, name: str, meter: TopicMeter) -> None:
        """A partition is gone; with the last of a topic, so is what was counted."""
        meter.partitions -= 1
        if meter.partitions == 0 and self._topics.get(name) is meter:
            del self._topics[name]
            self.internal.pop(name, None)

    @property
    def topics(self) -> Mapping[str, TopicMeter]:
        """With what is counted together, where there is any."""
        other = self._other
        return {**self._topics, OTHER: other} if other.partitions or other.bytes_in or other.bytes_out else self._topics


class LoopLag:
    """Looks from time to time how late the event loop comes to a timer: so long does everything wait that is due."""

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
