"""Puts the extensions onto the broker's logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kompat.clock import Clock
from kompat.cluster.service import ClusterService
from kompat.extensions.anywhere import Anywhere
from kompat.extensions.delay_far import FarDelays
from kompat.extensions.delay_service import DelayService
from kompat.extensions.firing import Firing
from kompat.extensions.intake import PartitionIntake
from kompat.extensions.lane_far import FarLanes
from kompat.extensions.lane_release import Commits, Releases
from kompat.extensions.lane_service import LaneService
from kompat.extensions.read_sources import HereSources, Sources
from kompat.extensions.reading import ReadService
from kompat.extensions.tracing.elsewhere import Elsewhere
from kompat.extensions.tracing.listeners import CommitTraces, ShareTraces
from kompat.extensions.tracing.service import TRACE_TOPIC, TraceService
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.manager import Logs
from kompat.log.partition import Partition


class Extensions:
    def __init__(self, logs: Logs, clock: Clock, is_internal: Callable[[str], bool]) -> None:
        """Before the logs are opened. `is_internal` tells the broker's own topics: those are as Kafka's."""
        self._is_internal = is_internal
        self._logs = logs
        self.tracer = Tracer(clock)
        self._firing = Firing(clock)
        self.delays = DelayService(logs, self._firing, clock)
        self._releases = Releases(clock, self.tracer)
        self.lanes = LaneService(logs, self._releases)
        self.reads = ReadService(HereSources(logs))
        self._anywhere: Anywhere | None = None
        self.share_traces = ShareTraces(self.tracer)
        self.commit_traces = CommitTraces(self.tracer, logs)
        logs.extend(self._extend)

    def join(self, cluster: ClusterService) -> tuple[FarDelays, FarLanes]:
        """Answer for all partitions of the cluster from here on: before anything is traced."""
        anywhere = self._anywhere = Anywhere(cluster, self._logs)
        self.reads.sources = Sources(anywhere)
        if cluster.member is not None:
            self.tracer.recorder.elsewhere = Elsewhere(TRACE_TOPIC, anywhere, self.tracer.recorder.append)
        return FarDelays(self.delays, anywhere), FarLanes(self.lanes, anywhere)

    def start(self) -> None:
        """The logs are open: deliver what is due."""
        self._firing.start()
        self._releases.start()

    def follow_commits(self, commits: Commits) -> None:
        """Groups are there: windows count what they commit."""
        self._releases.commits = commits
        commits.watch_commits(self._releases.offsets_committed)

    def trace(
        self, existing: Callable[[], Sequence[Partition]], ensure: Callable[[], Awaitable[Sequence[Partition]]]
    ) -> TraceService:
        """Write down what happens to traced records, in the partitions of `__kompat_trace`: until `tracer.recorder` is closed."""
        self.tracer.recorder.start(existing, ensure)
        return TraceService(self.tracer.recorder, existing, self.reads, self._logs, self._anywhere)

    def close(self) -> None:
        self._firing.close()
        self._releases.close()

    def _extend(self, partition: Partition) -> None:
        if not self._is_internal(partition.topic):
            partition.intake = intake = PartitionIntake(partition, self._changed, self._firing.dropped, self.tracer)
            self._look_at_lanes(intake)

    def _changed(self, intake: PartitionIntake) -> None:
        self._firing.changed(intake)
        self._look_at_lanes(intake)

    def _look_at_lanes(self, intake: PartitionIntake) -> None:
        self._releases.look_at(intake.partition, intake.view, intake.lanes)
