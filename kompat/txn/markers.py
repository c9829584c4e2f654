"""Writes transaction markers to partitions, at their leaders."""

from __future__ import annotations

from typing import ClassVar, Protocol

from msgspec import Struct

from kompat.clock import Clock
from kompat.cluster.names import CONSUMER_OFFSETS
from kompat.cluster.service import ClusterService
from kompat.log.partition import Origin, Partition
from kompat.protocol.records import ControlType, control_batch
from kompat.rpc.messages import LeaderRequest
from kompat.types import LogId, TopicPartition


class Marker(Struct, frozen=True, kw_only=True):
    """The end of a transaction, as a partition's log records it."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


class WriteMarker(LeaderRequest[None], frozen=True):
    """It is not retried: an outdated coordinator must not end a transaction that the producer has begun since."""

    patience: ClassVar[float] = 0.0

    marker: Marker


class CommittedOffsets(Protocol):
    """The offsets that groups commit within transactions."""

    async def end_transaction(
        self, partition: Partition, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int
    ) -> None: ...


class Markers:
    def __init__(self, cluster: ClusterService, offsets: CommittedOffsets, clock: Clock) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._clock = clock
        cluster.rpc.serve(WriteMarker, self._append)

    async def write(self, partition: TopicPartition, marker: Marker) -> None:
        """Done when the marker is committed; also if the partition was deleted and needs no marker."""
        topic = self._cluster.topic(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return
        if topic.internal and topic.name != CONSUMER_OFFSETS:
            return  # no transaction can have written there, even if the state claims so
        await self._cluster.rpc.call(LogId(topic.id, partition.partition), WriteMarker(marker))

    async def _append(self, partition: Partition, request: WriteMarker) -> None:
        marker = request.marker
        if partition.topic == CONSUMER_OFFSETS:
            await self._offsets.end_transaction(
                partition,
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
            )
            return
        batch = control_batch(
            ControlType.COMMIT if marker.commit else ControlType.ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._clock.now(),
        )
        await partition.append(memoryview(batch), origin=Origin.INTERNAL).pending
