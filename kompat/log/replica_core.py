"""What drives a partition's replica: one member of a Raft group whose log is the partition's.

The leader decides, followers copy. An append on the leader is judged, stamped and proposed in one step, and staged as an
append without replicas is. `pump`, at the end of a turn, works off what Raft has to say:

- messages to followers leave before this broker has written anything; those that promise something leave when it has;
- entries of another leader are staged; if they contradict the log, its end is cut first, and the rest waits for that;
- what is committed is applied: the high watermark passes it, states that came with it are written, members change.

A leader *leads* (takes appends, and says so) when the first entry of its term is committed and written down: from then on it
knows of all that was ever acknowledged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kompat.errors import DamagedData, ErrorCode, KafkaError, StorageError
from kompat.log import raft_states as states
from kompat.log.commit import Pending
from kompat.log.intake import StateWrite
from kompat.log.partition import Partition
from kompat.log.replica_doubts import Doubts
from kompat.log.replica_host import Host
from kompat.log.replica_log import ReplicaLog, Unapplied, not_leader
from kompat.log.replica_promise import Promises
from kompat.log.store import Entry, EntryKind
from kompat.raft.engine import (
    Message,
    MessageKind,
    NotLeader,
    RaftError,
    Ready,
    Role,
    describe_message,
)
from kompat.types import Buffer, LeaderEpoch, NodeId, Offset, RaftIndex

REST_SECONDS = 0.1


class _Waiting(NamedTuple):
    """A ready whose writes are under way."""

    turn: Pending
    number: int
    messages: Sequence[Message]


_REQUESTS = (MessageKind.REQUEST_VOTE, MessageKind.REQUEST_PRE_VOTE)
_ELECTIONS = (*_REQUESTS, MessageKind.TIMEOUT_NOW)
_ANSWERS = (MessageKind.APPEND_RESPONSE, MessageKind.HEARTBEAT_RESPONSE)


class ReplicaCore(ABC):
    def __init__(self, partition: Partition, host: Host, voters: Sequence[NodeId]) -> None:
        """Take up the group from the store; `voters` counts where there is none. None at all: wait to be added."""
        self.partition = partition
        self._host = host
        self.log = ReplicaLog(partition, host.directory, is_new=True)
        self._voters = voters
        self.copies: dict[NodeId, RaftIndex] = {}  # of the log up to there, on their way to followers
        self._promises = Promises(partition)
        self._waiting: deque[_Waiting] = deque()
        self._held: tuple[Pending, Ready] | None = None  # its entries wait until the log's end is cut
        self._is_pumping = self._is_applying = False
        self._first_of_term: tuple[int, RaftIndex] | None = None  # the term that this broker leads, and its first entry
        self._is_resting = self._is_over = False
        self.doubts = Doubts(host)
        self.is_installing = False  # a copy of the leader's log is on its way in
        self.role = Role.FOLLOWER  # LEADER only while it leads
        self.leader: NodeId | None = None
        self.epoch = LeaderEpoch(0)
        self.counted_epoch = LeaderEpoch(-1)  # the last whose leader counted as a new one
        self.proposals = 0
        self.group = host.open_group(self, self.log.load(voters))
        if not self.log.is_begun:
            self.log.stage_hard()
        self._follow()

    # -- for the partition -----------------------------------------------------------------------------------------
    @property
    def is_leading(self) -> bool:
        return self.role is Role.LEADER

    def admit(self, *, internal: bool) -> None:
        if self.role is not Role.LEADER:
            raise not_leader("")
        if internal:
            self.require_in_sync()

    def propose(self, batch: Buffer, writes: Sequence[StateWrite]) -> bytes:
        payload = states.encode_writes(writes) if writes else b""
        self._propose(batch, states.context(EntryKind.DATA, payload))
        return payload

    def staged(self, entry: Entry, payload: bytes, writes: Sequence[StateWrite], turn: Pending) -> Pending:
        self.log.note(entry, payload)
        return self._promise(writes, turn)

    def propose_states(self, writes: Sequence[StateWrite]) -> Pending:
        return self._note(EntryKind.STATES, states.encode_writes(writes), writes)

    def propose_start(self, offset: Offset) -> Pending:
        return self._note(EntryKind.START, states.encode_number(offset), ())

    def _note(self, kind: EntryKind, payload: bytes, writes: Sequence[StateWrite]) -> Pending:
        self.admit(internal=True)
        self._propose(b"", states.context(kind, payload))
        turn = self.partition.join_turn()
        self.log.note(self.partition.note(kind, self.epoch, payload), payload)
        return self._promise(writes, turn)

    def _propose(self, batch: Buffer, context: bytes) -> None:
        partition = self.partition
        try:
            partition.store.require_room()  # first: what is proposed has to be stored
            index, _ = self.group.propose(batch, context or None)
        except NotLeader as error:
            raise not_leader(error.args[0]) from None
        except StorageError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self.proposals += 1
        if index != partition.state.next_index:
            raise DamagedData(f"{partition} proposed entry {partition.state.next_index}, and Raft made it {index}")
        self._host.wake(self)

    def _promise(self, writes: Sequence[StateWrite], turn: Pending) -> Pending:
        return self._promises.give(self.log.last, writes, turn)

    def promise_of(self, offset: Offset) -> tuple[Pending, Pending]:
        promise = self._promises.of(offset)
        return (promise.committed, promise.written) if promise is not None else (self.settle(), Pending.done())

    def settle(self) -> Pending:
        if not self.log.unapplied and self._held is None:
            return Pending.done()
        if not self.is_leading:  # also where the log's end is about to be cut: as it stands, it never is committed
            lost = Pending()
            lost.resolve(not_leader(""))
            return lost
        return self._promise((), self.partition.join_turn())

    def defer(self, changes: Sequence[Callable[[], None]]) -> Pending:
        done = self.log.defer(changes)
        if not self._is_applying:  # else when that is over
            self._run_deferred()
        return done

    def may_forget_before(self, index: RaftIndex) -> RaftIndex:
        return RaftIndex(min(index, self.log.applied + 1, *(last + 1 for last in self.copies.values())))

    def close(self) -> None:
        self.log.stage_progress()

    def drop(self) -> None:
        self._is_over = True  # whatever comes now must not write to a log that is gone
        self.role = Role.FOLLOWER
        self._resign("the topic was deleted")
        self.log.forget()

    # -- a turn of the group ---------------------------------------------------------------------------------------
    def pump(self) -> None:
        if self._is_pumping or self.is_installing or self._is_resting or self._is_over:
            return None
        self._is_pumping = True
        try:
            self._go_on()
            if self.group.outdated:
                return self._start_over()
            while self._held is None and (ready := self.group.ready()) is not None:
                self._take(ready)
            self._look_at_role()
        except (StorageError, KafkaError):
            self._is_pumping = False
            self.partition.reload()  # as if the disk had refused the turn: Raft and the log have to agree
            self.partition.cut(RaftIndex(self.log.last + 1), self.partition.log_end_offset)  # what is staged already
        finally:
            self._is_pumping = False

    def _take(self, ready: Ready) -> None:
        self._send(ready.messages)
        if ready.read_states and self.doubts.is_open:
            self.doubts.answered(RaftIndex(ready.read_states[-1].index), self.log.applied)
            self._look_at_doubts()
        if ready.hard_state is not None and self.log.take_hard(ready.hard_state):
            # A vote that is forgotten may be given twice: the disk has to know of it, whatever is thought of records.
            self.log.stage_hard()
            self._host.require_sync()
        cut = self.log.conflicts(ready.entries)
        if cut is not None:
            self.log.cut(cut)
            self.log.stage_hard()
            self._held = self.partition.join_turn(), ready
        else:
            self._take_entries(ready)

    def _take_entries(self, ready: Ready) -> None:
        for entry in self.log.without_known(ready.entries):
            kind = self.log.append(entry)
            if kind is EntryKind.NOOP and self.group.is_leader and entry.term == self.group.term:
                self._first_of_term = (entry.term, RaftIndex(entry.index))
        if ready.must_sync:
            self.log.stage_hard()
        turn = self.partition.newest_turn
        if turn is not None:
            self._waiting.append(_Waiting(turn, ready.number, ready.messages_after_persist))
        else:
            self._persisted(ready.number, ready.messages_after_persist)
        if ready.wanted:
            self._host.fetch(self, ready)
        if ready.committed_to:
            self._apply(RaftIndex(ready.committed_to))

    def _persisted(self, number: int, messages: Sequence[Message]) -> None:
        self.group.persisted(number)
        self._send(messages)

    def _send(self, messages: Sequence[Message]) -> None:
        if not self._may_vote:
            unsaid = (*_REQUESTS, *_ANSWERS) if self.doubts.is_silent else _REQUESTS
            messages = [message for message in messages if message.kind not in unsaid]
        self._host.send(self, messages)

    @property
    def _may_vote(self) -> bool:
        return self.log.last_ever is None and not self.doubts.is_open

    @abstractmethod
    def trust(self) -> None: ...

    @abstractmethod
    def _look_at_doubts(self) -> None: ...

    @abstractmethod
    def _start_over(self) -> None: ...

    def written(self, turn: Pending) -> None:
        self._host.pump(self)

    def _go_on(self) -> None:
        """With what had to wait for turns that are written now."""
        if self._held is not None and self._held[0].is_done:
            ready, self._held = self._held[1], None
            self.log.restore()
            self._take_entries(ready)
        while self._waiting and self._waiting[0].turn.is_done:
            waiting = self._waiting.popleft()
            self._persisted(waiting.number, waiting.messages)

    # -- messages --------------------------------------------------------------------------------------------------
    def receive(self, header: bytes, payloads: Sequence[Buffer]) -> None:
        """A peer's message. Raises MessageRefused."""
        if self._is_over or self.is_installing:
            return
        if not self._may_vote and describe_message(header).kind in _ELECTIONS:
            return  # who has lost what it may have acknowledged must not vote
        if payloads:
            try:
                self.partition.store.require_room()
            except StorageError:
                return  # the leader tries again
        self.group.step(header, payloads)
        self._host.wake(self)

    def end_installation(self) -> None:
        """It may have been given up: what it has staged is still going to be written."""
        turn = self.partition.newest_turn
        if turn is not None and not turn.is_done:
            turn.add_done_callback(lambda _: self.end_installation())
            return
        self.is_installing = False
        was_leading = self.is_leading
        self.take_up()
        if (
            was_leading
        ):  # the copy is another leader's: what was promised may not be in it, though its log reaches as far
            self._resign("this broker has lost the leadership")
            self._host.role_changed(self)

    def take_up(self) -> None:
        """Begin anew from what is stored."""
        self.partition.restore()
        self._waiting.clear()
        self._held = None
        self._first_of_term = None
        self.log.forget()
        self.log = ReplicaLog(self.partition, self._host.directory, is_new=False)
        self.group = self._host.open_group(self, self.log.load(self._voters))
        self.group.muted = self.doubts.is_silent
        self._follow()
        self._caught_up_to(self.log.applied)
        self.partition.advance(self.partition.high_watermark)  # whoever waits finds the copy
        self._host.wake(self)

    # -- what is committed -----------------------------------------------------------------------------------------
    def _caught_up_to(self, index: RaftIndex) -> None:
        """By entries or by a copy. Whoever has doubts may have none any more, and writes that down before it answers again."""
        if self.doubts.is_open:
            self.doubts.applied(index)
            self._look_at_doubts()

    def _apply(self, index: RaftIndex) -> None:
        self._is_applying = True
        special = self.log.take_committed(index)
        for entry in special:
            self._apply_one(entry)
        self.group.applied(index)
        self._is_applying = False
        if any(entry.kind is not EntryKind.NOOP for entry in special):
            self.log.stage_hard()
        self._run_deferred()
        self._caught_up_to(index)
        self._promises.keep(index)

    def _apply_one(self, entry: Unapplied) -> None:
        match entry.kind:
            case EntryKind.DATA | EntryKind.STATES:
                self.log.apply_states(entry.payload)
            case EntryKind.START:
                self.log.apply_start(states.decode_start(entry.payload))
            case EntryKind.MEMBERSHIP:
                self.log.apply_members(self.group.apply_membership(entry.index, entry.payload))
                self._host.members_changed(self)

    def _run_deferred(self) -> None:
        start = self.log.run_deferred()
        if start is not None:
            self.group.compact(start - 1)

    def campaign(self) -> None:
        """Try to become the leader, if a majority can do without the present one."""
        if self._may_vote and not self.is_installing and not self.group.is_leader:
            try:
                self.group.campaign()
            except RaftError:
                return  # no voter, or not yet able to
            self._host.wake(self)

    # -- leading ---------------------------------------------------------------------------------------------------
    def _look_at_role(self) -> None:
        group = self.group
        term, leader = group.term, NodeId(group.leader) if group.leader else None
        role = Role.LEADER if group.is_leader and self._may_lead(term) else Role.FOLLOWER
        if (role, term, leader) == (self.role, self.epoch, self.leader):
            return
        was_leading = self.is_leading
        self.role, self.epoch, self.leader = role, LeaderEpoch(term), leader
        if role is Role.LEADER:
            self.partition.lead(self.epoch)
            self._began_to_lead()
            self._reload_intake()
        else:
            self.partition.leader_epoch = self.epoch
            if was_leading:
                self._resign("this broker has lost the leadership")
        self._host.role_changed(self)

    def _may_lead(self, term: int) -> bool:
        """Whether the first entry of the term that this broker leads is committed, and what came before it is in the store.

        States that are only on their way there would not be seen by whoever looks at them first: what they say would be
        overlooked, or done twice.
        """
        first = self._first_of_term
        if first is None or first[0] != term or first[1] > self.log.applied:
            return False
        return (self.is_leading and self.epoch == term) or self.partition.newest_turn is None

    @abstractmethod
    def _began_to_lead(self) -> None: ...

    @abstractmethod
    def require_in_sync(self) -> None: ...

    def _follow(self) -> None:
        self.role, self.leader, self.epoch = Role.FOLLOWER, None, LeaderEpoch(self.group.term)
        self.partition.leader_epoch = self.epoch

    def _resign(self, reason: str) -> None:
        """What is under way may still be committed, by another leader: nobody can tell."""
        self._reload_intake()
        self._promises.give_up(not_leader(reason))

    def _reload_intake(self) -> None:
        """States that were only promised are void, and those of other leaders have come."""
        if self.partition.intake is not None:
            self.partition.intake.reload()

    def failed(self) -> None:
        """Take up the group anew from what is stored: what Raft believes may not be there. What is to be written again waits a
        little, else a full disk keeps the broker busy with nothing else."""
        self.take_up()
        if not self._is_resting:
            self._is_resting = True
            self._host.call_later(REST_SECONDS, self._rise)
        self._resign("the disk refused a write")
        self._host.role_changed(self)

    def _rise(self) -> None:
        self._is_resting = False
        self._host.wake(self)
