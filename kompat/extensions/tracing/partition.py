"""The traced records of one partition: chosen when they are appended, stored by their offsets, found by ranges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from struct import error as StructError  # noqa: N812 - it is one
from typing import TYPE_CHECKING

from kompat.common.promise import Promise
from kompat.config.topic import TopicConfig
from kompat.errors import KafkaError
from kompat.extensions import headers
from kompat.extensions.delay.records import DelayedRecord
from kompat.extensions.headers import HeaderError, RecordOptions
from kompat.extensions.states import View
from kompat.extensions.tracing import context, offsets
from kompat.extensions.tracing.events import Happening, Kind, Place, RecordTrace, details
from kompat.extensions.tracing.offsets import Entry, TracedOffsets, TracedPartition
from kompat.log.interceptor import StateWrite
from kompat.log.partition import Partition
from kompat.protocol.records import Record
from kompat.types import Millis

if TYPE_CHECKING:
    from kompat.extensions.tracing.tracer import Tracer

_NAMES = (headers.TRACE, headers.TRACEPARENT)


class Chosen:
    """The traced records of one incoming batch."""

    __slots__ = ("all_wait", "at", "base", "dues", "entries", "replaced")

    def __init__(self, base: int, at: Millis, entries: list[Entry], *, all_wait: bool = False) -> None:
        """`all_wait`: none of them is in the log yet."""
        self.base = base
        self.at = at
        self.entries = entries
        self.all_wait = all_wait
        self.dues: dict[int, Millis] = {}  # of delayed ones
        self.replaced: list[Entry] = []  # that will not be delivered

    @property
    def found(self) -> list[Entry]:
        """Those that are in the log: a waiting record leaves its offset empty."""
        if self.all_wait:
            return []
        return [entry for entry in self.entries if entry[0] not in self.dues] if self.dues else self.entries

    def __bool__(self) -> bool:
        return bool(self.entries or self.replaced)


class Choosing(Chosen):
    """As Chosen, while the records are read."""

    __slots__ = ("_label", "_sampled")

    def __init__(
        self, label: TracedPartition, base: int, count: int, parts: int, at: Millis, *, all_wait: bool
    ) -> None:
        """`parts`: the sample rate per million."""
        super().__init__(base, at, [], all_wait=all_wait)
        self._label = label
        self._sampled = dict.fromkeys(context.sampled(base, base + count, parts))

    def take(self, offset: int, options: RecordOptions, due: Millis | None) -> None:
        """A record with options; `due`, if it is delayed."""
        trace = _requested_trace(self._label, offset, options, is_sampled=offset in self._sampled)
        self._sampled.pop(offset, None)
        if trace is not None:
            self.entries.append((offset, trace))
            if due is not None:
                self.dues[offset] = due

    def end(self, gone: Collection[int]) -> None:
        """All records with options have been added; these positions in the batch are empty now."""
        left = [offset for offset in self._sampled if offset - self.base not in gone]
        if left:
            self.entries += [(offset, self._label.trace(offset)) for offset in left]
            self.entries.sort(key=lambda entry: entry[0])


class Fresh:
    """Records that were appended, and whose events have not been reported yet."""

    __slots__ = ("_report", "base", "traces")

    def __init__(self, traces: PartitionTraces, base: int, report: Callable[[], None]) -> None:
        self.traces = traces
        self.base = base
        self._report: Callable[[], None] | None = report

    def committed(self, turn: Promise[None]) -> None:
        if turn.error is None:
            self.report()
        self.traces.reported(self)

    def report(self) -> None:
        report, self._report = self._report, None
        if report is not None:
            report()


class PartitionTraces:
    __slots__ = (
        "_chosen",
        "_config",
        "_fresh",
        "_is_loaded",
        "_is_marked",
        "_known",
        "_mark",
        "_parts",
        "_view",
        "is_saving",
        "label",
        "partition",
        "tracer",
    )

    def __init__(self, partition: Partition, view: View, tracer: Tracer, *, mark: bytes) -> None:
        """`mark`: the name of the state without which there are no traces from before."""
        is_used = view.get(mark) is not None
        self._mark = mark
        self._is_marked = is_used
        self.is_saving = False
        self._config: TopicConfig | None = None  # that `_parts` is of
        self._parts = 0
        self.partition = partition
        self.label = TracedPartition(partition.log_id.key, partition.topic, partition.index)
        self.tracer = tracer
        self._view = view
        self._known = TracedOffsets()
        self._is_loaded = not is_used
        self._chosen: Chosen | None = None
        self._fresh: list[Fresh] = []
        if is_used:
            tracer.used[partition] = self

    # -- choosing --------------------------------------------------------------------------------------------------
    @property
    def parts(self) -> int:
        """The sample rate per million."""
        config = self.partition.config
        if config is not self._config:
            self._config = config
            self._parts = context.per_million(config.kompat_trace_sample)
        return self._parts

    def sample(self, base: int, count: int, now: Millis) -> None:
        """A batch is about to be appended without decoding it: sampled records are planned by offset."""
        trace = self.label.trace
        found = [(offset, trace(offset)) for offset in context.sampled(base, base + count, self.parts)]
        self._chosen = Chosen(base, now, found) if found else None

    def choose(self, base: int, count: int, now: Millis, *, all_wait: bool) -> Choosing:
        return Choosing(self.label, base, count, self.parts, now, all_wait=all_wait)

    def trace_of(self, slot: int, record: Record) -> RecordTrace | None:
        """The trace of a record that waits, or has waited, at a slot; None: it is not traced."""
        options: RecordOptions | None = None
        if any(name in _NAMES for name, _ in record.headers):
            try:
                options = headers.parse(record.headers)
            except HeaderError:  # it was parked under other rules
                return None
        is_sampled = self.parts > 0 and context.is_sampled(slot, self.parts)
        if options is None and is_sampled:
            options = RecordOptions()
        return _requested_trace(self.label, slot, options, is_sampled=is_sampled) if options is not None else None

    def traces_of(self, records: Iterable[DelayedRecord]) -> Iterator[Entry]:
        """The traced ones of these delayed records, with their traces."""
        for parked in records:
            trace = self.trace_of(parked.slot, parked.record) if parked.record is not None else None
            if trace is not None:
                yield parked.slot, trace

    def plan(self, chosen: Chosen | None) -> None:
        """These records are about to be appended."""
        self._chosen = chosen

    # -- the log's word --------------------------------------------------------------------------------------------
    def appended(self, base: int, committed: Promise[None], client_id: str | None) -> None:
        """The planned records were appended."""
        chosen, self._chosen = self._chosen, None
        if chosen is None or chosen.base != base:
            return
        self._add(chosen.found)
        self._begin(base, committed, lambda: self._report_chosen(chosen, client_id))

    def _add(self, found: Sequence[Entry]) -> None:
        self._load()
        self._known.add(found)
        self.tracer.used[self.partition] = self
        if found:
            self.tracer.unsaved[self] = None

    def save(self) -> None:
        """Save the traced offsets for a restart."""
        gone = self._known.forget(self.tracer.limit, self.partition.log_start_offset)
        writes: list[StateWrite] = [(offsets.state_name(base), None) for base in gone]
        found = self._known.unsaved()
        if found:
            base = found[0][0]
            writes.append((offsets.state_name(base), self.label.encode(base, found)))
        if not self._is_marked:
            writes.append((self._mark, b""))
        if writes and not self.partition.is_dropped:
            self._is_marked = True
            self.is_saving = True
            try:
                self.partition.write_states(writes)
            finally:
                self.is_saving = False

    def _begin(self, base: int, turn: Promise[None], report: Callable[[], None]) -> None:
        fresh = Fresh(self, base, report)
        self._fresh.append(fresh)
        turn.add_done_callback(fresh.committed)

    def _report_chosen(self, chosen: Chosen, client_id: str | None) -> None:
        now, entries = self.tracer.now(), chosen.entries
        if entries:
            self.emit(Kind.PRODUCED, entries, self.tracer.client_text(client_id), at=chosen.at)
            self.emit(Kind.REPLICATED, entries, at=now)
        for entry in entries if chosen.dues or chosen.all_wait else ():
            due = chosen.dues.get(entry[0])
            if due is not None or chosen.all_wait:
                self.emit(Kind.PARKED, [entry], details(due=due), at=now)
        if chosen.replaced:
            self.emit(Kind.CANCELLED, chosen.replaced, details(reason="replaced"), at=now)

    def reported(self, fresh: Fresh) -> None:
        if fresh in self._fresh:
            self._fresh.remove(fresh)

    def reload(self) -> None:
        self._known.cut(self.partition.log_end_offset)
        self._chosen = None

    def drop(self) -> None:
        self.tracer.forget(self.partition)

    # -- finding ---------------------------------------------------------------------------------------------------
    def between(self, first: int, end: int) -> Iterator[Entry]:
        """The traced records in [first, end), which are committed."""
        self._load()
        for fresh in self._fresh[:]:  # the records were used before the commit was reported
            if fresh.base < end:
                fresh.report()
        return self._known.between(first, end)

    def find(self, offset: int) -> RecordTrace | None:
        return next((trace for _, trace in self.between(offset, offset + 1)), None)

    def continue_at(self, found: list[Entry], turn: Promise[None], report: Callable[[], None]) -> None:
        """Records with traces from another place were appended at these offsets in this turn. `report` is called after the commit."""
        self._add(found)
        self._begin(found[0][0], turn, report)

    def emit(
        self,
        kind: Kind,
        entries: Sequence[Entry],
        more: str = "",
        *,
        at: Millis,
        new_places: Sequence[Place] | None = None,
    ) -> None:
        """`new_places`: the records' new positions."""
        if entries:
            self.tracer.events.add(Happening(kind, at, self.label, entries, more, new_places))

    def __len__(self) -> int:
        return len(self._known)

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        try:
            for name, value in self._view.range(offsets.PREFIX, offsets.END):
                self._known.add(self.label.decode(offsets.base_of(name), value))
                self._known.unsaved()
        except (
            KafkaError,
            StructError,
            ValueError,
        ):  # traced records must not fail with it: reading the log reports it
            self._known = TracedOffsets()


def _requested_trace(
    label: TracedPartition, offset: int, options: RecordOptions, *, is_sampled: bool
) -> RecordTrace | None:
    found = context.parse_traceparent(options.traceparent) if options.traceparent is not None else None
    if not (options.trace or is_sampled or (found is not None and found.is_sampled)):
        return None
    if found is None or not (found.is_sampled or options.trace):  # no other system follows that trace
        return label.trace(offset, message_id=options.message_id)
    return label.trace(offset, found.trace_id, found.span_id, options.message_id)
