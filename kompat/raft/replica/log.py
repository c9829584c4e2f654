"""The stored state of a replica: its log, the entries that are not applied yet, and the Raft state that survives a restart."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kompat import _native
from kompat.common.promise import Promise
from kompat.errors import DamagedData, ErrorCode, KafkaError
from kompat.log.checkpoint import CHECKPOINT, encode
from kompat.log.epochs import Epochs
from kompat.log.partition import Partition
from kompat.log.storage.store import Entry, EntryKind
from kompat.protocol.records import read_header
from kompat.raft import engine
from kompat.raft import states as states
from kompat.raft.engine import FOUNDING, ConfState, GroupState, HardState
from kompat.raft.states import Hard
from kompat.types import Buffer, LeaderEpoch, NodeId, Offset, RaftIndex


@dataclass(slots=True)
class Unapplied:
    """An entry of the log that is not applied yet."""

    index: RaftIndex
    end: Offset  # of the log, after it
    kind: EntryKind
    payload: bytes


def not_leader(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)


def _pass_on(done: Promise[None], turn: Promise[None]) -> None:
    done.end(turn.error)


def wipe(partition: Partition, last_ever: RaftIndex, hard: Hard) -> None:
    """Stage the removal of all that a replica has, but for its promises to others."""
    store = partition.store
    store.truncate_from(RaftIndex(0), Offset(0))
    store.delete_states(b"", states.PREFIX)
    store.delete_states(states.AFTER_PREFIX, LAST_NAME)
    for name in (states.TERMS, states.MEMBERS, states.START):
        store.delete_state(name)
    store.put_state(states.INSTALLING, states.encode_number(last_ever))
    store.put_state(states.HARD, Hard(hard.term, hard.vote, RaftIndex(0), RaftIndex(0)).encode())


LAST_NAME = b"\xff" * 32  # after all names of states


@dataclass(slots=True)
class Deferred:
    """Changes to the store that wait until the log is committed up to `index`."""

    index: RaftIndex
    start_index: RaftIndex  # of the log, after them
    changes: Sequence[Callable[[], None]]
    done: Promise[None]


class ReplicaLog:
    __slots__ = (
        "_deferred",
        "_directory",
        "_is_stale",
        "applied",
        "hard",
        "is_begun",
        "is_new",
        "is_whole",
        "last_ever",
        "members",
        "partition",
        "terms",
        "unapplied",
    )

    def __init__(self, partition: Partition, directory: str, *, is_new: bool) -> None:
        """`is_new`: the partition has just been opened, and takes all that it finds for committed."""
        self.partition = partition
        self._directory = directory.encode()
        self.is_whole = True  # False: promises that this replica has made may be lost
        self.is_new = is_new
        self.is_begun = True  # False: there is nothing of it in the store yet
        self.hard = Hard(0, 0, RaftIndex(0), RaftIndex(0))  # as it is stored, or staged
        self.terms = Epochs()  # which began at which index
        self.members = ConfState()
        self.applied = RaftIndex(0)
        self.unapplied: deque[Unapplied] = deque()
        self.last_ever: RaftIndex | None = None  # not None: what was stored up to there is gone, and not copied yet
        self._deferred: deque[Deferred] = deque()
        self._is_stale = False  # the stored commit and applied indices are older than those in memory

    # -- opening ---------------------------------------------------------------------------------------------------
    def load(self, voters: Sequence[NodeId]) -> GroupState:
        """Take up the replica from the store; begin it, with these voters, where there is none."""
        store = self.partition.store
        hard = states.load_hard(store)
        last_ever = states.load_number(store, states.INSTALLING)
        if hard is None:
            self._begin(voters)
        elif last_ever is not None:  # a part of a copy is useless: the next copy removes it
            self.last_ever, self.hard = RaftIndex(last_ever), hard
        else:
            self.hard = hard
            self.terms = states.load_terms(store)
            self.members = states.load_members(store)
            self.applied = min(hard.applied, self.last)  # the disk may have lost the log's end
            self.hard = hard._replace(commit=min(hard.commit, self.last), applied=self.applied)
            self._find_unapplied()
        if hard is not None:
            self.is_whole = store.state(states.DIRECTORY) in (None, self._directory)  # None: older versions kept none
        self.terms.truncate_from(Offset(self.last + 1))
        return self._group_state()

    def _begin(self, voters: Sequence[NodeId]) -> None:
        """A log that this broker had alone goes on with its next index; a new one begins after an entry that never was."""
        partition = self.partition
        state = partition.state
        if voters:
            index, term = FOUNDING
            if state.next_index > 1:
                index, term = state.next_index - 1, max(term, state.epochs.latest)
            state.start_index = state.next_index = RaftIndex(index + 1)
            self.applied = RaftIndex(index)
            self.hard = Hard(term, 0, self.applied, self.applied)
            self.terms.assign(term, index)
            self.members = ConfState(list(voters))
        else:
            self.is_whole = False  # it is new here, or was here before in a directory that is gone
            if state.next_index > 1:
                self.wait_for_copy()
                return
        self.is_begun = False

    def wait_for_copy(self) -> None:
        """The log on this disk cannot be trusted: it belongs to another replica, or to an earlier time."""
        self.last_ever = self.last
        self.partition.log.join_turn()
        wipe(self.partition, self.last_ever, self.hard)
        self._put_directory()

    def distrust(self, directory: str) -> None:
        """The data directory has another id from now on, because it lacks entries that were acknowledged in it."""
        self._directory, self.is_whole = directory.encode(), False

    def trust(self) -> None:
        """Stage that this replica has all that it has acknowledged."""
        self.is_whole = True
        self._put_directory()
        self.stage_hard()

    def raise_term(self, terms: int) -> None:
        """Stage a term that no other replica can have reached."""
        self.hard = self.hard._replace(term=self.hard.term + terms, vote=0)
        self.stage_hard()

    def _put_directory(self) -> None:
        self.partition.log.join_turn()
        self.partition.store.put_state(states.DIRECTORY, self._directory if self.is_whole else b"")

    def _find_unapplied(self) -> None:
        """Find the unapplied entries, and the high watermark: it is before entries that are not known to be committed."""
        partition = self.partition
        state, store = partition.state, partition.store
        high_watermark = state.log_end_offset
        first = RaftIndex(self.applied + 1)
        if first <= self.last:
            self.unapplied.extend(
                Unapplied(entry.index, Offset(entry.last_offset + 1), entry.kind, payload)
                for entry, payload in store.full_entries(first)
            )
            high_watermark = next(store.entries(first)).base_offset
        # What was committed stays so; but states that came with it may have to be written again.
        partition.high_watermark = high_watermark if self.is_new else max(high_watermark, partition.high_watermark)
        if high_watermark < state.log_end_offset:
            partition.restore()  # with markers of transactions that are not final
        self._move_start()

    def restore(self) -> None:
        """Take up the partition as it is stored."""
        self.partition.restore()
        self._move_start()

    def _move_start(self) -> None:
        """To where the replicas have agreed on: the stored checkpoint may be older."""
        start = states.load_number(self.partition.store, states.START)
        if start is not None and start > self.partition.log_start_offset:
            self.partition.move_start(Offset(start))

    def _group_state(self) -> GroupState:
        if self.last_ever is not None:
            promises = HardState(self.hard.term, self.hard.vote, 0)
            return GroupState(members=ConfState(), hard_state=promises, base=(0, 0), last=0, applied=0)
        base = RaftIndex(self.partition.state.start_index - 1)
        runs: dict[int, int] = {}
        for term, start in self.terms.entries():
            if start <= self.last:
                runs[max(start, base + 1)] = term
        hard = self.hard
        return GroupState(
            members=self.members,
            hard_state=HardState(hard.term, hard.vote, hard.commit),
            base=(base, self.term_at(base)) if base else (0, 0),
            last=self.last,
            runs=list(runs.items()) if self.last > base else [],
            applied=self.applied,
            memberships=[
                (each.index, self.term_at(each.index), engine.RaftEntryKind.MEMBERSHIP, b"", each.payload)
                for each in self.unapplied
                if each.kind is EntryKind.MEMBERSHIP
            ],
        )

    @property
    def last(self) -> RaftIndex:
        return RaftIndex(self.partition.state.next_index - 1)

    def term_at(self, index: RaftIndex) -> int:
        return self.terms.at(Offset(index))

    def offset_after(self, index: RaftIndex) -> Offset:
        """Where the log ended after that entry."""
        if index >= self.last:
            return self.partition.log_end_offset
        entry = next(self.partition.store.entries(index), None)
        if entry is None or entry.index != index:  # long gone
            return Offset(0) if index < self.applied else self.partition.high_watermark
        return Offset(entry.last_offset + 1)

    # -- growing, and being cut ------------------------------------------------------------------------------------
    def append(self, entry: engine.Entry) -> EntryKind:
        """Stage an entry that Raft hands out. Raises StorageError, KafkaError."""
        partition, term = self.partition, LeaderEpoch(entry.term)
        if entry.index != self.last + 1:
            raise DamagedData(f"{partition} was given entry {entry.index} after {self.last}")
        if entry.kind == engine.RaftEntryKind.MEMBERSHIP:
            kind, payload = EntryKind.MEMBERSHIP, bytes(entry.payload)
        else:
            kind, payload = states.of_context(entry.context, len(entry.payload))
        if kind is EntryKind.DATA:
            stored = self._copy(term, entry.payload, payload)
        else:
            stored = partition.log.stage_note(kind, term, payload)
        self.note(stored, payload)
        return kind

    def _copy(self, term: LeaderEpoch, batch: Buffer, payload: bytes) -> Entry:
        """Append a batch as the leader has written it."""
        partition, header = self.partition, read_header(batch)
        base = partition.log_end_offset
        if _native.whole_batches(batch) != len(batch):
            partition.damages.refuse(f"{partition.topic}-{partition.index}", base)
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{partition} was sent a damaged batch for offset {base}")
        if header.base_offset != base:
            raise DamagedData(f"{partition} was sent offset {header.base_offset} where {base} comes next")
        return partition.log.stage_copy(batch, header, base, term, payload)

    def note(self, entry: Entry, payload: bytes) -> None:
        """The partition has staged this entry."""
        if self.terms.latest != entry.term:
            self.terms.assign(entry.term, entry.index)
            self._put_terms()
        self.unapplied.append(Unapplied(entry.index, Offset(entry.last_offset + 1), entry.kind, payload))

    def without_known(self, entries: Sequence[engine.Entry]) -> Sequence[engine.Entry]:
        """The entries that are not in the log yet: a leader has those that it proposed."""
        return entries[max(0, self.last + 1 - entries[0].index) :] if entries else entries

    def conflicts(self, entries: Sequence[engine.Entry]) -> RaftIndex | None:
        """Where the log has another entry than Raft's: all from there on has to go."""
        known = entries[: max(0, self.last + 1 - entries[0].index)] if entries else entries
        if not known or self.term_at(RaftIndex(known[-1].index)) == known[-1].term:
            return None  # who agrees on an entry agrees on all before it
        return next(index for each in known if self.term_at(index := RaftIndex(each.index)) != each.term)

    def cut(self, index: RaftIndex) -> None:
        """Stage the removal of the entries from `index` on. `restore` follows when that is written."""
        if index <= self.applied:
            raise DamagedData(f"{self.partition} was told to take back entry {index}, and has applied {self.applied}")
        while self.unapplied and self.unapplied[-1].index > index:
            self.unapplied.pop()
        first = self.unapplied.pop()
        before = self.unapplied[-1].end if self.unapplied else self.partition.high_watermark
        self.partition.log.cut(index, before)
        self.terms.truncate_from(Offset(first.index))
        self._put_terms()
        self._give_up(index)

    def _give_up(self, index: RaftIndex) -> None:
        while self._deferred and self._deferred[-1].index >= index:
            self._deferred.pop().done.fail(not_leader("what was to be written is not committed"))

    def forget(self) -> None:
        """Nothing of what was deferred will be done."""
        self._give_up(RaftIndex(0))

    # -- committing ------------------------------------------------------------------------------------------------
    def take_committed(self, index: RaftIndex) -> list[Unapplied]:
        """Those entries up to `index` that are more than a batch; the high watermark passes all of them."""
        found, end = [], None
        unapplied = self.unapplied
        while unapplied and unapplied[0].index <= index:
            entry = unapplied.popleft()
            end = entry.end
            if entry.payload or entry.kind is not EntryKind.DATA:
                found.append(entry)
        self.applied = index
        self._is_stale = True
        if end is not None and end > self.partition.high_watermark:
            self.partition.advance(end)
        return found

    def apply_states(self, payload: bytes) -> None:
        self.partition.log.stage_states(states.decode_writes(payload))

    def apply_start(self, offset: Offset) -> None:
        if offset > self.partition.log_start_offset:  # two that were proposed together may come in any order
            self.partition.store.put_state(states.START, states.encode_number(offset))
            self.partition.upkeep.begin_at(offset)

    def apply_members(self, members: ConfState) -> None:
        self.members = members
        self._put_members()

    # -- deferring -------------------------------------------------------------------------------------------------
    def defer(self, changes: Sequence[Callable[[], None]]) -> Promise[None]:
        deferred = Deferred(self.last, self.partition.state.start_index, changes, Promise())
        self._deferred.append(deferred)
        return deferred.done

    def run_deferred(self) -> RaftIndex | None:
        """Make the changes that waited for what is applied now; where the log starts after them."""
        start = None
        while self._deferred and self._deferred[0].index <= self.applied:
            deferred = self._deferred.popleft()
            turn = self.partition.log.join_turn()
            for change in deferred.changes:
                change()
            turn.add_done_callback(partial(_pass_on, deferred.done))
            start = deferred.start_index
        if start is not None:
            self.stage_hard()  # in one write: the log never starts after what is known to be applied
        return start

    # -- what is kept besides --------------------------------------------------------------------------------------
    def take_hard(self, hard: HardState) -> bool:
        """Raft's new one; whether term or vote, which are promises, are others."""
        before = self.hard
        self.hard = before._replace(term=hard.term, vote=hard.vote, commit=RaftIndex(hard.commit))
        return self.hard[:2] != before[:2]

    def stage_hard(self) -> None:
        """With the turn that is joined for it."""
        self.partition.log.join_turn()
        if not self.is_begun:
            self.is_begun = True
            self.partition.store.put_state(CHECKPOINT, encode(self.partition.state))
            self._put_terms()
            self._put_members()
            self._put_directory()
        self.hard = self.hard._replace(commit=max(self.hard.commit, self.applied), applied=self.applied)
        self.partition.store.put_state(states.HARD, self.hard.encode())
        self._is_stale = False

    def stage_progress(self) -> None:
        """Have the store know how far this replica has come, if it does not."""
        if self._is_stale:
            self.stage_hard()

    def _put_terms(self) -> None:
        self.terms.drop_before(Offset(self.partition.state.start_index - 1))
        self.partition.store.put_state(states.TERMS, states.encode_terms(self.terms))

    def _put_members(self) -> None:
        self.partition.store.put_state(states.MEMBERS, states.encode_members(self.members))
