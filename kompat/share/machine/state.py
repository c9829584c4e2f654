"""The persisted state of share partitions: each has a start offset, and the offsets after it that are not just available."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kompat.coordination.decision import Decision
from kompat.errors import ErrorCode, KafkaError
from kompat.share.machine.messages import RecordState, StateBatch, Update
from kompat.share.machine.runs import Run, Runs
from kompat.share.records import (
    NO_COUNT,
    UNINITIALIZED,
    ShareEnd,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareUpdate,
)
from kompat.types import LeaderEpoch, Millis, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The description of a share partition."""

    start_offset: Offset = UNINITIALIZED
    complete_count: int = NO_COUNT
    leader_epoch: int = 0
    state_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """All that a share partition is loaded from."""

    start_offset: Offset
    state_epoch: int
    batches: tuple[StateBatch, ...]


class Fence(NamedTuple):
    """The epochs of a writer of a share partition's state: a later writer fences it."""

    leader_epoch: LeaderEpoch  # of the partition whose records are shared: its leader writes
    state_epoch: int  # changes when the group is reset


class Writing(NamedTuple):
    """A write from another broker. It may arrive twice or late: it is only applied if it is newer than the last."""

    writer: str  # identifies one load of the share partition
    number: int


class _State:
    """The state of one share partition."""

    __slots__ = (
        "complete_count",
        "created",
        "leader_epoch",
        "runs",
        "snapshot_epoch",
        "start_offset",
        "state_epoch",
        "updates",
        "written",
    )

    def __init__(self, snapshot: ShareSnapshot) -> None:
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = snapshot.state_epoch
        self.leader_epoch = snapshot.leader_epoch
        self.start_offset = snapshot.start_offset
        self.complete_count = snapshot.complete_count
        self.created = snapshot.create_timestamp
        self.written = snapshot.write_timestamp
        self.updates = 0  # since the last snapshot
        self.runs = Runs()
        self._put(snapshot.batches)

    def update(self, record: ShareUpdate) -> None:
        self.updates += 1
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)
        self.complete_count = record.complete_count
        if record.start_offset > self.start_offset:
            self.start_offset = record.start_offset
        self._put(record.batches)
        if len(self.runs) and self.runs[0].first < self.start_offset:
            self.runs.remove(*self.runs.cut(self.runs[0].first, self.start_offset - 1))

    def _put(self, batches: Iterable[StateBatch]) -> None:
        for first, last, state, deliveries in batches:
            low, high = self.runs.cut(first, last)
            self.runs.replace(low, high, Run(first, last, state, deliveries))
            self.runs.join(low, exactly=True)

    @property
    def is_archiving(self) -> bool:
        return any(run.state is RecordState.ARCHIVING for run in self.runs)

    def batches(self) -> tuple[StateBatch, ...]:
        return tuple(StateBatch(run.first, run.last, run.state, run.deliveries) for run in self.runs)


class ShareStateMachine:
    """The share partitions whose state is in one partition of `__share_group_state`."""

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        """Kafka's `share.coordinator.snapshot.update.records.per.snapshot`."""
        self._updates_per_snapshot = updates_per_snapshot
        self._states: dict[ShareKey, _State] = {}
        self._by_group: dict[str, set[ShareKey]] = defaultdict(set)
        self._may_archive: set[ShareKey] = set()  # including all with dead-letter records to write
        self._writings: dict[ShareKey, Writing] = {}  # the newest write for each that another broker uses

    # -- commands --------------------------------------------------------------------------------------------------
    def begin(
        self, key: ShareKey, start_offset: Offset, leader_epoch: LeaderEpoch, now: Millis, writer: str = ""
    ) -> Decision[ShareRecord, Stored]:
        """The state of a share partition for a new user; without a state, it starts at the offset.

        The earlier user is fenced: a broker that led the partition before, or an earlier load.
        """
        known = self._states.get(key)
        if known is not None and leader_epoch < known.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        self._use(key, writer)
        if known is not None and known.start_offset != UNINITIALIZED:
            stored = Stored(known.start_offset, known.state_epoch, known.batches())
            is_led_anew = leader_epoch > known.leader_epoch
            return Decision([_led(key, known, leader_epoch)] if is_led_anew else [], stored)
        epoch = known.state_epoch if known is not None else 0
        begun = self.initialize(key, start_offset, leader_epoch=leader_epoch, state_epoch=epoch, now=now)
        return Decision(begun.records, Stored(start_offset, epoch, ()))

    def _use(self, key: ShareKey, writer: str) -> None:
        """If the same writer begins twice, because a response was lost, its writes since then stay valid."""
        newest = self._writings.get(key)
        if not writer:
            self._writings.pop(key, None)
        elif newest is None or newest.writer != writer:
            self._writings[key] = Writing(writer, 0)

    def initialize(
        self, key: ShareKey, start_offset: Offset, leader_epoch: LeaderEpoch, state_epoch: int | None, now: Millis
    ) -> Decision[ShareRecord, None]:
        """Start, or reset, at an offset. Without a given state epoch it is incremented."""
        known = self._states.get(key)
        if state_epoch is None:
            state_epoch = known.state_epoch + 1 if known is not None else 0
        snapshot = ShareSnapshot(
            key=key,
            snapshot_epoch=known.snapshot_epoch + 1 if known is not None else 0,
            state_epoch=state_epoch,
            leader_epoch=max(leader_epoch, known.leader_epoch) if known is not None else leader_epoch,
            start_offset=start_offset,
            complete_count=0 if start_offset != UNINITIALIZED else NO_COUNT,
            create_timestamp=now,
            write_timestamp=now,
            batches=(),
        )
        return Decision([snapshot], None)

    def ensure(self, keys: Iterable[ShareKey], now: Millis) -> Decision[ShareRecord, None]:
        """Initialize the state of these share partitions; their start offset is determined on first use."""
        records: list[ShareRecord] = []
        for key in keys:
            if key not in self._states:
                epoch = LeaderEpoch(0)
                made = self.initialize(key, UNINITIALIZED, leader_epoch=epoch, state_epoch=0, now=now)
                records += made.records
        return Decision(records, None)

    def write(self, key: ShareKey, update: Update, fence: Fence, now: Millis) -> Decision[ShareRecord, None]:
        """Persist a change. Raises FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH if the writer has been replaced."""
        state = self._states.get(key)
        if state is None or state.start_offset == UNINITIALIZED or state.state_epoch != fence.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        if fence.leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        record = ShareUpdate(
            key=key,
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=fence.leader_epoch,
            start_offset=update.start_offset,
            complete_count=update.complete_count,
            batches=update.batches,
        )
        if state.updates < self._updates_per_snapshot:
            return Decision([record], None)
        # A snapshot contains everything from before, so that older records are not needed.
        return Decision([record, _snapshot(key, _updated(state, key, record), now)], None)

    def write_numbered(
        self, key: ShareKey, update: Update, fence: Fence, now: Millis, writing: Writing
    ) -> Decision[ShareRecord, None]:
        """As `write`, for another broker: a write that arrives twice is applied once."""
        newest = self._writings.get(key)
        if newest is not None and newest.writer != writing.writer:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        if newest is not None and writing.number <= newest.number:
            return Decision([], None)
        decision = self.write(key, update, fence, now)
        self._writings[key] = writing
        return decision

    def read(self, key: ShareKey) -> Decision[ShareRecord, Stored | None]:
        state = self._states.get(key)
        if state is None:
            return Decision([], None)
        return Decision([], Stored(state.start_offset, state.state_epoch, state.batches()))

    def summary(self, key: ShareKey) -> Decision[ShareRecord, Summary]:
        state = self._states.get(key)
        if state is None:
            return Decision([], Summary())
        return Decision(
            [],
            Summary(
                start_offset=state.start_offset,
                complete_count=state.complete_count,
                leader_epoch=state.leader_epoch,
                state_epoch=state.state_epoch,
            ),
        )

    def keys_of(self, group_id: str) -> Decision[ShareRecord, list[ShareKey]]:
        return Decision([], sorted(self._by_group.get(group_id, ()), key=lambda key: (key.topic_id, key.partition)))

    def topics(self) -> Decision[ShareRecord, list[tuple[str, UUID]]]:
        """All groups with the topics that they have a state for."""
        return Decision([], sorted({(key.group_id, key.topic_id) for key in self._states}))

    def delete(self, keys: Iterable[ShareKey]) -> Decision[ShareRecord, None]:
        return Decision([ShareEnd(key) for key in keys if key in self._states], None)

    def delete_topics(self, topic_ids: Collection[UUID]) -> Decision[ShareRecord, None]:
        return Decision([ShareEnd(key) for key in self._states if key.topic_id in topic_ids], None)

    def archiving(self) -> Decision[ShareRecord, list[ShareKey]]:
        """Share partitions with dead-letter records to write."""
        self._may_archive = {key for key in self._may_archive if key in self._states and self._states[key].is_archiving}
        return Decision([], sorted(self._may_archive))

    # -- records ---------------------------------------------------------------------------------------------------
    def apply(self, record: ShareRecord) -> None:
        key = record.key
        if not isinstance(record, ShareEnd) and any(each.state is RecordState.ARCHIVING for each in record.batches):
            self._may_archive.add(key)
        if isinstance(record, ShareSnapshot):
            self._states[key] = _State(record)
            self._by_group[key.group_id].add(key)
        elif isinstance(record, ShareUpdate):
            state = self._states.get(key)
            if state is not None:
                state.update(record)
        elif self._states.pop(key, None) is not None:
            self._writings.pop(key, None)
            self._by_group[key.group_id].discard(key)
            if not self._by_group[key.group_id]:
                del self._by_group[key.group_id]

    def snapshot(self) -> Iterator[ShareRecord]:
        return (_snapshot(key, state, state.written) for key, state in self._states.items())


def _led(key: ShareKey, state: _State, leader_epoch: LeaderEpoch) -> ShareUpdate:
    """A later leader writes from now on: writes of earlier ones are fenced."""
    return ShareUpdate(
        key=key,
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=UNINITIALIZED,
        complete_count=state.complete_count,
        batches=(),
    )


def _updated(state: _State, key: ShareKey, record: ShareUpdate) -> _State:
    after = _State(_snapshot(key, state, state.written))
    after.update(record)
    after.snapshot_epoch += 1
    return after


def _snapshot(key: ShareKey, state: _State, now: Millis) -> ShareSnapshot:
    return ShareSnapshot(
        key=key,
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        complete_count=state.complete_count,
        create_timestamp=state.created,
        write_timestamp=now,
        batches=state.batches(),
    )
