"""Tells the coordinator of an internal topic which of its partitions this broker leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from kompat.log.partition import Partition
from kompat.types import LeaderEpoch


class Coordinator(Protocol):
    def leading(self, partition: Partition) -> None:
        """This broker coordinates the partition from now on."""
        ...

    def following(self, partition: Partition) -> None:
        """It coordinates the partition no longer."""
        ...


class LeadershipEvents:
    def __init__(self, coordinators: Mapping[str, Coordinator], on_leader_changed: Callable[[Partition], None]) -> None:
        """`coordinators`: by the names of their topics. `on_leader_changed` is called for the partitions of all other topics."""
        self._coordinators = coordinators
        self._on_leader_changed = on_leader_changed

    def leading(self, partition: Partition, _: LeaderEpoch) -> None:
        coordinator = self._coordinators.get(partition.topic)
        if coordinator is not None:
            coordinator.leading(partition)
        else:
            self._on_leader_changed(partition)

    def following(self, partition: Partition) -> None:
        coordinator = self._coordinators.get(partition.topic)
        if coordinator is not None:
            coordinator.following(partition)
        else:
            self._on_leader_changed(partition)
