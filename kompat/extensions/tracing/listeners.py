"""Turns the events of groups and share groups into events of traced records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kompat.extensions.tracing.events import Kind, Place, details
from kompat.extensions.tracing.tracer import Tracer
from kompat.groups.commits import Moved
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.share import events as share_events
from kompat.share.machine.messages import AckType, AcquiredSpan, Span

_KINDS: Final = {
    AckType.ACCEPT: Kind.ACKNOWLEDGED,
    AckType.RELEASE: Kind.RELEASED,
    AckType.REJECT: Kind.REJECTED,
}


class ShareTraces:
    """For share groups: share/events.py."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._used = tracer.used

    def watches(self, log: Partition) -> bool:
        return log in self._used

    def acquired(self, log: Partition, group_id: str, member: str, spans: Sequence[AcquiredSpan]) -> None:
        for first, last, deliveries in spans:
            kind = Kind.DELIVERED if deliveries <= 1 else Kind.REDELIVERED
            more: dict[str, str | int] = {"group": group_id, "member_id": member, "delivery_count": deliveries}
            self._tracer.happened(self._used[log], kind, first, last + 1, **more)

    def acknowledged(self, log: Partition, group_id: str, member: str, span: Span, kind: int) -> None:
        traces, event_kind = self._used.get(log), _KINDS.get(AckType(kind))
        if traces is not None and event_kind is not None:
            self._tracer.happened(traces, event_kind, span.first, span.last + 1, group=group_id, member_id=member)

    def let_go(self, log: Partition, group_id: str, member: str | None, span: Span, *, is_late: bool) -> None:
        kind, reason = (Kind.LOCK_EXPIRED, None) if is_late else (Kind.RELEASED, "the member is gone")
        more = {"group": group_id, "member_id": member, "reason": reason}
        self._tracer.happened(self._used[log], kind, span.first, span.last + 1, **more)

    def expired(self, log: Partition, group_id: str, span: Span) -> None:
        self._tracer.happened(self._used[log], Kind.EXPIRED, span.first, span.last + 1, group=group_id)

    def dead_lettered(
        self, log: Partition, group_id: str, reason: str, dead_letters: Mapping[int, share_events.Place]
    ) -> None:
        traces = self._used.get(log)
        if traces is not None:
            entries = self._tracer.found(log, dead_letters)
            places = [Place(*dead_letters[offset]) for offset, _ in entries]
            more = details(group=group_id, reason=reason)
            traces.emit(Kind.DEAD_LETTERED, entries, more, at=self._tracer.now(), new_places=places)


class CommitTraces:
    """For groups: groups/commits.py."""

    def __init__(self, tracer: Tracer, logs: Logs) -> None:
        self._tracer = tracer
        self._logs = logs

    @property
    def is_active(self) -> bool:
        return bool(self._tracer.used)

    def committed(self, moved: Moved) -> None:
        partition = self._logs.find(moved.topic, moved.partition)
        traces = self._tracer.used.get(partition)
        first = moved.before or 0
        if traces is not None and first < moved.offset:
            end = min(moved.offset, traces.partition.high_watermark)
            more = {"group": moved.group_id, "member_id": moved.member_id}
            self._tracer.happened(traces, Kind.COMMITTED_PAST, first, end, **more)
