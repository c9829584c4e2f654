"""The traced records of one partition: chosen as they come, remembered with their offsets, found again by ranges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from struct import error as StructError  # noqa: N812 - it is one
from typing import TYPE_CHECKING

from kompat.config.topic import TopicConfig
from kompat.errors import KafkaError
from kompat.extensions import headers
from kompat.extensions.headers import Asked, HeaderError
from kompat.extensions.parked import Parked
from kompat.extensions.states import View
from kompat.extensions.tracing import context, offsets
from kompat.extensions.tracing.events import Happening, Kind, Place, Story, details
from kompat.extensions.tracing.offsets import Entry, TracedHome, TracedOffsets
from kompat.log.commit import Pending
from kompat.log.intake import StateWrite
from kompat.log.partition import Partition
from kompat.protocol.records import Record
from kompat.types import Millis

if TYPE_CHECKING:
    from kompat.extensions.tracing.tracer import Tracer

_NAMES = (headers.TRACE, headers.TRACEPARENT)


class Chosen:
    """The traced records of one batch that comes in."""

    __slots__ = ("all_wait", "at", "base", "dues", "entries", "replaced")

    def __init__(self, base: int, at: Millis, entries: list[Entry], *, all_wait: bool = False) -> None:
        """`all_wait`: none of them is in the log yet."""
        self.base = base
        self.at = at
        self.entries = entries
        self.all_wait = all_wait
        self.dues: dict[int, Millis] = {}  # of those that wait
        self.replaced: list[Entry] = []  # that will not be delivered

    @property
    def found(self) -> list[Entry]:
        """Those that are in the log: what waits leaves its offset empty, and nobody reads it there."""
        if self.all_wait:
            return []
        return [entry for entry in self.entries if entry[0] not in self.dues] if self.dues else self.entries

    def __bool__(self) -> bool:
        return bool(self.entries or self.replaced)


class Choosing(Chosen):
    """As Chosen, while the records are looked at."""

    __slots__ = ("_home", "_sampled")

    def __init__(self, home: TracedHome, base: int, count: int, parts: int, at: Millis, *, all_wait: bool) -> None:
        """`parts`: of a million records, how many are traced in any case."""
        super().__init__(base, at, [], all_wait=all_wait)
        self._home = home
        self._sampled = dict.fromkeys(context.sampled(base, base + count, parts))

    def take(self, offset: int, asked: Asked, due: Millis | None) -> None:
        """A record that asks for something; `due`, where it has to wait."""
        story = _asked_for(self._home, offset, asked, is_sampled=offset in self._sampled)
        self._sampled.pop(offset, None)
        if story is not None:
            self.entries.append((offset, story))
            if due is not None:
                self.dues[offset] = due

    def end(self, gone: Collection[int]) -> None:
        """All have been looked at that ask for something; these places in the batch are empty now."""
        left = [offset for offset in self._sampled if offset - self.base not in gone]
        if left:
            self.entries += [(offset, self._home.story(offset)) for offset in left]
            self.entries.sort(key=lambda entry: entry[0])


class Fresh:
    """Records that were appended, and whose coming has not been told yet."""

    __slots__ = ("_tell", "base", "client_id", "traces")

    def __init__(self, traces: PartitionTraces, base: int, tell: Callable[[Fresh], None]) -> None:
        self.traces = traces
        self.base = base
        self.client_id: str | None = None
        self._tell: Callable[[Fresh], None] | None = tell

    def committed(self, turn: Pending) -> None:
        if turn.error is None:
            self.tell()
        self.traces.told(self)

    def tell(self) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(self)


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
        "home",
        "is_saving",
        "partition",
        "tracer",
    )

    def __init__(self, partition: Partition, view: View, tracer: Tracer, *, mark: bytes) -> None:
        """`mark`: the name of the state without which there is nothing from before."""
        is_used = view.get(mark) is not None
        self._mark = mark
        self._is_marked = is_used
        self.is_saving = False
        self._config: TopicConfig | None = None  # that `_parts` is of
        self._parts = 0
        self.partition = partition
        self.home = TracedHome(partition.log_id.key, partition.topic, partition.index)
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
        """Of a million records, how many are traced in any case."""
        config = self.partition.config
        if config is not self._config:
            self._config = config
            self._parts = context.per_million(config.kompat_trace_sample)
        return self._parts

    def sample(self, base: int, count: int, now: Millis) -> None:
        """A batch is about to be appended of which nobody looks at the records: those traced by the rate are planned."""
        story = self.home.story
        found = [(offset, story(offset)) for offset in context.sampled(base, base + count, self.parts)]
        self._chosen = Chosen(base, now, found) if found else None

    def choose(self, base: int, count: int, now: Millis, *, all_wait: bool) -> Choosing:
        return Choosing(self.home, base, count, self.parts, now, all_wait=all_wait)

    def story_of(self, slot: int, record: Record) -> Story | None:
        """That of a record that waits, or has waited, at a slot; None: it is not traced."""
        asked: Asked | None = None
        if any(name in _NAMES for name, _ in record.headers):
            try:
                asked = headers.parse(record.headers)
            except HeaderError:  # what waits was taken under other rules
                return None
        is_sampled = self.parts > 0 and context.is_sampled(slot, self.parts)
        if asked is None and is_sampled:
            asked = Asked()
        return _asked_for(self.home, slot, asked, is_sampled=is_sampled) if asked is not None else None

    def stories_of(self, records: Iterable[Parked]) -> Iterator[Entry]:
        """Of those of the records that wait that are traced."""
        for parked in records:
            story = self.story_of(parked.slot, parked.record) if parked.record is not None else None
            if story is not None:
                yield parked.slot, story

    def plan(self, chosen: Chosen | None) -> None:
        """These records are about to be appended."""
        self._chosen = chosen

    # -- the log's word --------------------------------------------------------------------------------------------
    def appended(self, base: int, committed: Pending) -> None:
        """What was planned has its place."""
        chosen, self._chosen = self._chosen, None
        if chosen is None or chosen.base != base:
            return
        self._add(chosen.found)
        self.tracer.newest = self._begin(base, committed, lambda fresh: self._tell_of(chosen, fresh.client_id))

    def _add(self, found: Sequence[Entry]) -> None:
        self._load()
        self._known.add(found)
        self.tracer.used[self.partition] = self
        if found:
            self.tracer.unsaved[self] = None

    def save(self) -> None:
        """Let what is remembered outlive the process."""
        gone = self._known.forget(self.tracer.limit, self.partition.log_start_offset)
        writes: list[StateWrite] = [(offsets.state_name(base), None) for base in gone]
        found = self._known.unsaved()
        if found:
            base = found[0][0]
            writes.append((offsets.state_name(base), self.home.encode(base, found)))
        if not self._is_marked:
            writes.append((self._mark, b""))
        if writes and not self.partition.is_dropped:
            self._is_marked = True
            self.is_saving = True
            try:
                self.partition.write_states(writes)
            finally:
                self.is_saving = False

    def _begin(self, base: int, turn: Pending, tell: Callable[[Fresh], None]) -> Fresh:
        fresh = Fresh(self, base, tell)
        self._fresh.append(fresh)
        turn.add_done_callback(fresh.committed)
        return fresh

    def _tell_of(self, chosen: Chosen, client_id: str | None) -> None:
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

    def told(self, fresh: Fresh) -> None:
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
        for fresh in self._fresh[:]:  # somebody was faster than the word that they are committed
            if fresh.base < end:
                fresh.tell()
        return self._known.between(first, end)

    def find(self, offset: int) -> Story | None:
        return next((story for _, story in self.between(offset, offset + 1)), None)

    def continue_at(self, found: list[Entry], turn: Pending, tell: Callable[[], None]) -> None:
        """Records were appended at these offsets in this turn whose stories began elsewhere. `tell` of it, when it is true."""
        self._add(found)
        self._begin(found[0][0], turn, lambda _: tell())

    def emit(
        self,
        kind: Kind,
        entries: Sequence[Entry],
        more: str = "",
        *,
        at: Millis,
        new_places: Sequence[Place] | None = None,
    ) -> None:
        """`new_places`: where the records are found from now on."""
        if entries:
            self.tracer.recorder.add(Happening(kind, at, self.home, entries, more, new_places))

    def __len__(self) -> int:
        return len(self._known)

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        try:
            for name, value in self._view.range(offsets.PREFIX, offsets.END):
                self._known.add(self.home.decode(offsets.base_of(name), value))
                self._known.unsaved()
        except (
            KafkaError,
            StructError,
            ValueError,
        ):  # what is traced must not fail because of that: whoever reads the log next will say so
            self._known = TracedOffsets()


def _asked_for(home: TracedHome, offset: int, asked: Asked, *, is_sampled: bool) -> Story | None:
    found = context.parse_traceparent(asked.traceparent) if asked.traceparent is not None else None
    if not (asked.trace or is_sampled or (found is not None and found.is_sampled)):
        return None
    if found is None or not (found.is_sampled or asked.trace):  # nobody else follows that trace
        return home.story(offset, message_id=asked.message_id)
    return home.story(offset, found.trace_id, found.span_id, asked.message_id)
