"""Puts the extensions onto the broker's logs."""

from __future__ import annotations

from collections.abc import Callable

from kompat.clock import Clock
from kompat.extensions.delay_service import DelayService
from kompat.extensions.firing import Firing
from kompat.extensions.intake import PartitionIntake
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.manager import Logs
from kompat.log.partition import Partition


class Extensions:
    def __init__(self, logs: Logs, clock: Clock, is_internal: Callable[[str], bool]) -> None:
        """Before the logs are opened. `is_internal` tells the broker's own topics: those are as Kafka's."""
        self._is_internal = is_internal
        self.tracer = Tracer(clock)
        self._firing = Firing(clock)
        self.delays = DelayService(logs, self._firing, clock)
        logs.extend(self._extend)

    def start(self) -> None:
        """The logs are open: deliver what is due."""
        self._firing.start()

    def close(self) -> None:
        self._firing.close()

    def _extend(self, partition: Partition) -> None:
        if not self._is_internal(partition.topic):
            partition.intake = PartitionIntake(partition, self._firing.changed, self._firing.dropped, self.tracer)
