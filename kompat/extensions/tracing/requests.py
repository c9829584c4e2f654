"""Requests between brokers about traces."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from kompat.extensions.tracing.events import Place, TraceEvent
from kompat.extensions.tracing.index import Names
from kompat.rpc.messages import BrokerRequest, LeaderRequest


class AppendEvents(LeaderRequest[None], frozen=True):
    """To a partition of `__kompat_trace`, until it is committed.

    It is sent again if the response was lost: an event that is written twice is harmless, one that is lost leaves a gap.
    """

    is_idempotent: ClassVar[bool] = True
    patience: ClassVar[float] = 10.0  # seconds: meanwhile events are gathered

    batch: bytearray
    names: Names


class FlushEvents(BrokerRequest[None], frozen=True):
    """Write the gathered events, so that they can be read."""


class ListEvents(BrokerRequest[list[TraceEvent]], frozen=True):
    """The events of a trace, in partitions of `__kompat_trace` that the broker leads."""

    trace_id: bytes


class ListTracesOfMessage(BrokerRequest[list[bytes]], frozen=True):
    """Their ids."""

    message_id: str


class TracedRecord(NamedTuple):
    trace_id: bytes
    record: str  # its first position: topic/partition/offset


class FindTracedRecord(BrokerRequest[TracedRecord | None], frozen=True):
    """The record that is, or was, at this position."""

    place: Place
