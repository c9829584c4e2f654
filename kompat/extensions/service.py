"""Puts the extensions onto the broker's logs."""

from __future__ import annotations

from collections.abc import Callable

from kompat.clock import Clock
from kompat.extensions.delay.scheduler import DelayScheduler
from kompat.extensions.interceptor import PartitionInterceptor
from kompat.extensions.priority.lane_release import Commits, Releases
from kompat.extensions.tracing.listeners import CommitTraces, ShareTraces
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.manager import Logs
from kompat.log.partition import Partition


class Extensions:
    def __init__(self, logs: Logs, clock: Clock, is_internal: Callable[[str], bool]) -> None:
        """Before the logs are opened. `is_internal` tells the broker's own topics: those are as Kafka's."""
        self._is_internal = is_internal
        self.tracer = Tracer(clock)
        self.scheduler = DelayScheduler(clock)
        self.releases = Releases(clock, self.tracer)
        self.share_traces = ShareTraces(self.tracer)
        self.commit_traces = CommitTraces(self.tracer, logs)
        logs.extend(self._extend)

    def start(self, commits: Commits) -> None:
        """The logs are open, and groups are there: deliver what is due, and what consumers wait for."""
        self.scheduler.start()
        self.releases.start(commits)

    def close(self) -> None:
        self.scheduler.close()
        self.releases.close()

    def _extend(self, partition: Partition) -> None:
        if not self._is_internal(partition.topic):
            partition.interceptor = interceptor = PartitionInterceptor(
                partition, self._changed, self.scheduler.dropped, self.tracer
            )
            self._look_at_lanes(interceptor)

    def _changed(self, interceptor: PartitionInterceptor) -> None:
        self.scheduler.changed(interceptor)
        self._look_at_lanes(interceptor)

    def _look_at_lanes(self, interceptor: PartitionInterceptor) -> None:
        self.releases.look_at(interceptor.partition, interceptor.view, interceptor.lanes)
