"""A partition's replica: one member of a Raft group whose log is the partition's.

The leader decides, followers copy. An append on the leader is checked, stamped and proposed in one step, and staged as an
append without replicas is. `pump`, at the end of a turn, processes Raft's readies (ready_loop.py).

A leader *leads* (announces itself and takes appends) when the first entry of its term is committed and written: from then on it
has all that was ever acknowledged. Its LeaderState has the progress of its followers.

The path of a Produce: Partition.append → `propose` → the log stages the entry → `staged` → Replication pumps before the flush → followers
answer by `receive` → the ready loop applies what is committed → `proposals.keep` resolves the promise that the client's response waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kompat.common.promise import Promise, all_of
from kompat.errors import DamagedBatch, DamagedData, ErrorCode, KafkaError, StorageError
from kompat.log.interceptor import StateWrite
from kompat.log.partition import Partition
from kompat.log.storage.store import Entry, EntryKind
from kompat.raft import states as states
from kompat.raft.engine import Message, MessageKind, NotLeader, RaftError, Role, describe_message
from kompat.raft.replica.leader_state import Follower, LeaderState, ReplicaProgress
from kompat.raft.replica.log import ReplicaLog, not_leader
from kompat.raft.replica.members import change_members
from kompat.raft.replica.proposals import Proposals
from kompat.raft.replica.ready_loop import ReadyLoop
from kompat.raft.replica.unclean_recovery import UncleanRecovery
from kompat.types import Buffer, LeaderEpoch, Millis, NodeId, Offset, RaftIndex

if TYPE_CHECKING:
    from kompat.raft.replication import Replication

__all__ = ["Replica", "Role"]

REST_SECONDS = 0.1
LOOK_EVERY = 100  # milliseconds between two checks of the followers, where the ISR is requested
_REQUESTS = (MessageKind.REQUEST_VOTE, MessageKind.REQUEST_PRE_VOTE)
_ELECTIONS = (*_REQUESTS, MessageKind.TIMEOUT_NOW)
_ANSWERS = (MessageKind.APPEND_RESPONSE, MessageKind.HEARTBEAT_RESPONSE)


class Replica:
    def __init__(self, partition: Partition, broker: Replication, voters: Sequence[NodeId]) -> None:
        """Take up the group from the store; `voters` counts where there is none. None at all: wait to be added."""
        self.partition = partition
        self._broker = broker
        self._voters = voters
        self.log = ReplicaLog(partition, broker.directory, is_new=True)
        self.proposals = Proposals(partition)
        self.recovery = UncleanRecovery(self, broker)
        self.copies: dict[NodeId, RaftIndex] = {}  # of the log up to there, on their way to followers
        self._leader_state = LeaderState()
        self.loop = ReadyLoop(self, broker)
        self._is_pumping = self._is_over = False
        self.is_resting = False  # nothing is worked off for a moment
        self.is_installing = False  # a copy of the leader's log is on its way in
        self.role = Role.FOLLOWER  # LEADER only while it leads
        self.leader: NodeId | None = None
        self.epoch = LeaderEpoch(0)
        self.group = broker.open_group(self, self.log.load(voters))
        if not self.log.is_begun:
            self.log.stage_hard()
        self._follow()
        partition.replicate(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.partition}, {self.role.name} in {self.epoch}>"

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

    def staged(self, entry: Entry, payload: bytes, writes: Sequence[StateWrite], turn: Promise[None]) -> Promise[None]:
        self.log.note(entry, payload)
        return self.proposals.give(self.log.last, writes, turn)

    def propose_states(self, writes: Sequence[StateWrite]) -> Promise[None]:
        return self._note(EntryKind.STATES, states.encode_writes(writes), writes)

    def propose_start(self, offset: Offset) -> Promise[None]:
        return self._note(EntryKind.START, states.encode_number(offset), ())

    def _note(self, kind: EntryKind, payload: bytes, writes: Sequence[StateWrite]) -> Promise[None]:
        self.admit(internal=True)
        self._propose(b"", states.context(kind, payload))
        turn = self.partition.log.join_turn()
        return self.staged(self.partition.log.stage_note(kind, self.epoch, payload), payload, writes, turn)

    def _propose(self, batch: Buffer, context: bytes) -> None:
        log = self.partition.log
        try:
            log.store.require_room()  # first: what is proposed has to be stored
            index, _ = self.group.propose(batch, context or None)
        except NotLeader as error:
            raise not_leader(error.args[0]) from None
        except StorageError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self.proposals.count += 1
        if index != log.state.next_index:
            raise DamagedData(f"{self.partition} proposed entry {log.state.next_index}, and Raft made it {index}")
        self._broker.wake(self)

    def promise_of(self, offset: Offset) -> tuple[Promise[None], Promise[None]]:
        proposal = self.proposals.of(offset)
        return (proposal.committed, proposal.written) if proposal else (self.when_committed(), Promise.resolved(None))

    def when_committed(self) -> Promise[None]:
        if not self.log.unapplied and not self.loop.is_held:
            return Promise.resolved(None)
        if not self.is_leading:  # also where the log's end is about to be cut: as it stands, it never is committed
            return Promise.failed(not_leader(""))
        return self.proposals.give(self.log.last, (), self.partition.log.join_turn())

    def defer(self, changes: Sequence[Callable[[], None]]) -> Promise[None]:
        done = self.log.defer(changes)
        if not self.loop.is_applying:  # else when that is over
            self.loop.run_deferred()
        return done

    def may_forget_before(self, index: RaftIndex) -> RaftIndex:
        return RaftIndex(min(index, self.log.applied + 1, *(last + 1 for last in self.copies.values())))

    def written(self) -> None:
        self._broker.pump(self)

    async def mend(self, damage: DamagedBatch) -> None:
        await self._broker.mend(self, damage)

    def close(self) -> None:
        self.log.stage_progress()

    def drop(self) -> None:
        self._is_over = True  # whatever comes now must not write to a log that is gone
        self.role = Role.FOLLOWER
        self._resign("the topic was deleted")
        self.log.forget()

    # -- messages, and what follows from them ----------------------------------------------------------------------
    def receive(self, header: bytes, payloads: Sequence[Buffer]) -> None:
        """A peer's message. Raises MessageRefused."""
        if self._is_over or self.is_installing:
            return
        if not self._may_vote and describe_message(header).kind in _ELECTIONS:
            return  # a replica that may have lost acknowledged entries must not vote
        if payloads:
            try:
                self.partition.store.require_room()
            except StorageError:
                return  # the leader tries again
        self.group.step(header, payloads)
        self._broker.wake(self)

    def send(self, messages: Sequence[Message]) -> None:
        if not self._may_vote:
            unsaid = (*_REQUESTS, *_ANSWERS) if self.recovery.is_silent else _REQUESTS
            messages = [message for message in messages if message.kind not in unsaid]
        self._broker.send(self, messages)

    @property
    def _may_vote(self) -> bool:
        return self.log.last_ever is None and not self.recovery.is_open

    def pump(self) -> None:
        """Process Raft's readies, unless that is under way."""
        if not (self._is_pumping or self.is_installing or self.is_resting or self._is_over):
            self._is_pumping = True
            try:
                self._pump()
            except (StorageError, KafkaError):
                self._is_pumping = False
                self.abandon()
            finally:
                self._is_pumping = False
        if self._leader_state.has_waiting:
            self._acknowledge()

    def _pump(self) -> None:
        self.loop.go_on()
        if self.group.outdated:
            self.recovery.start_over()
        else:
            self.loop.run()
            self._look_at_role()

    # -- starting over ---------------------------------------------------------------------------------------------
    def abandon(self) -> None:
        """Proceed as if the turn could not be written: Raft and the log have to agree."""
        self.partition.reload()
        self.partition.log.cut(RaftIndex(self.log.last + 1), self.partition.log_end_offset)  # what is staged already

    def failed(self) -> None:
        """Open the group again from what is stored: entries that Raft has may not be there. Writing them again waits a little,
        else a full disk would keep the broker busy."""
        self.take_up()
        if not self.is_resting:
            self.is_resting = True
            self._broker.call_later(REST_SECONDS, self._rise)
        self._resign("the disk refused a write")
        self._broker.role_changed(self)

    def _rise(self) -> None:
        self.is_resting = False
        self._broker.wake(self)

    def rise_anew(self) -> None:
        """Start over from what is stored by now."""
        self.is_resting = False
        if not self._is_over and not self.is_installing:
            self.take_up()

    def end_installation(self) -> None:
        """End it, also where it was given up: what it has staged is still going to be written."""
        turn = self.partition.log.turns.newest
        if turn is not None and not turn.is_done:
            turn.add_done_callback(lambda _: self.end_installation())
            return
        self.is_installing = False
        was_leading = self.is_leading
        self.take_up()
        if was_leading:
            # The copy is another leader's: acknowledged entries may not be in it, though its log reaches as far.
            self._resign("this broker has lost the leadership")
            self._broker.role_changed(self)

    def take_up(self) -> None:
        """Start over from what is stored."""
        self.partition.restore()
        self.loop.reset()
        self.log.forget()
        self.log = ReplicaLog(self.partition, self._broker.directory, is_new=False)
        self.group = self._broker.open_group(self, self.log.load(self._voters))
        self.group.muted = self.recovery.is_silent
        self._follow()
        self.recovery.caught_up_to(self.log.applied)
        self.partition.advance(self.partition.high_watermark)  # wakes the waiting readers
        self._broker.wake(self)

    @property
    def is_in_doubt(self) -> bool:
        return self.recovery.is_silent

    def recover(self) -> None:
        """An operator accepts the loss of what this replica does not have."""
        self.recovery.accept_loss()

    # -- leading ---------------------------------------------------------------------------------------------------
    def campaign(self) -> None:
        """Try to become the leader, if a majority can do without the present one."""
        if self._may_vote and not self.is_installing and not self.group.is_leader:
            try:
                self.group.campaign()
            except RaftError:
                return  # no voter, or not yet able to
            self._broker.wake(self)

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
            now = self._broker.now()
            self._leader_state.begin([NodeId(peer.id) for peer in group.status().peers], now)
            self.look_at_followers(now)
            self._reload_interceptor()
        else:
            self.partition.leader_epoch = self.epoch
            if was_leading:
                self._resign("this broker has lost the leadership")
        self._broker.role_changed(self)

    def _may_lead(self, term: int) -> bool:
        """Whether the first entry of the term that this broker leads is committed, and what came before it is in the store.

        The first read would not see states that are only on their way there: what they require would be overlooked, or done
        twice.
        """
        first = self.loop.first_of_term
        if first is None or first[0] != term or first[1] > self.log.applied:
            return False
        return (self.is_leading and self.epoch == term) or self.partition.log.turns.newest is None

    def _follow(self) -> None:
        self.role, self.leader, self.epoch = Role.FOLLOWER, None, LeaderEpoch(self.group.term)
        self.partition.leader_epoch = self.epoch

    def _resign(self, reason: str) -> None:
        """What is under way may still be committed by another leader: that is unknown here."""
        self._reload_interceptor()
        self.proposals.give_up(not_leader(reason))
        self._leader_state.give_up(not_leader(reason))

    def _reload_interceptor(self) -> None:
        """States that were not committed are void, and those of other leaders may have been added."""
        if self.partition.interceptor is not None:
            self.partition.interceptor.reload()

    def transfer_leadership(self, to: NodeId) -> None:
        """Make another voter the leader. Appends are refused meanwhile; if the transfer fails, they go on here."""
        try:
            self.group.transfer_leadership(to)
        except NotLeader as error:
            raise not_leader(error.args[0]) from None
        except RaftError as error:
            raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, str(error)) from error
        self._broker.wake(self)

    def peer_lost(self, node: NodeId) -> None:
        """The link to the leader is gone. The first voter campaigns at once, the others if it is not elected."""
        others = [voter for voter in self.voters if voter != node]
        if self._broker.node_id in others:
            self._broker.campaign_later(self, others.index(self._broker.node_id))

    def peer_has_lost(self, node: NodeId) -> None:
        """A follower's disk has lost what it had acknowledged: its acknowledgements do not count any more."""
        if self.group.is_leader:
            self.group.reset_peer(node)
            self._broker.wake(self)

    # -- members ---------------------------------------------------------------------------------------------------
    @property
    def voters(self) -> Sequence[NodeId]:
        """While they change, the old and the new ones: both are needed."""
        members = self.log.members
        return [NodeId(node) for node in sorted({*members.voters, *members.voters_outgoing})]

    @property
    def learners(self) -> Sequence[NodeId]:
        return [NodeId(node) for node in self.log.members.learners]

    async def change_members(self, voters: Sequence[NodeId], learners: Sequence[NodeId] = ()) -> None:
        """Make these the voters; new ones catch up first. Only on the leader, and again after it has failed.

        `learners` have the log as well, without a vote. Where this broker itself is to leave, it hands the leadership over first: NOT_LEADER_OR_FOLLOWER, retry on the new leader.
        """
        await change_members(self, self._broker, voters, learners)

    def followers(self) -> Iterator[Follower]:
        """Of every member, this one too. Only on the leader."""
        me, voters = self._broker.node_id, set(self.log.members.voters)
        for peer in self.group.status().peers:
            matched = self.log.last if peer.id == me else RaftIndex(peer.matched)
            yield Follower(NodeId(peer.id), matched, peer.id in voters, self._broker.is_here(peer.id))

    def look_at_followers(self, now: Millis) -> None:
        """Only on the leader."""
        if self._leader_state.look(self.followers(), self.log.last, now, self._broker.lag_ms):
            self._broker.members_changed(self)
        if self._leader_state.has_waiting:
            self._acknowledge()

    def in_sync(self) -> Sequence[NodeId]:
        """The voters that had all of the log within replica.lag.time.max.ms. Only on the leader."""
        now = self._broker.now()
        if now - self._leader_state.looked >= LOOK_EVERY:
            self.look_at_followers(now)
        return self._leader_state.in_sync

    def require_in_sync(self) -> None:
        """Raises NOT_ENOUGH_REPLICAS where fewer are in sync than the topic's min.insync.replicas."""
        if not self.is_leading:
            raise not_leader("")  # the ISR is unknown here; clients have to look for the new leader
        least = self.partition.config.min_insync_replicas
        if least > 1:
            self.in_sync()
            self._leader_state.require_in_sync(least)

    def when_in_min_isr(self, committed: Promise[None]) -> Promise[None]:
        if 2 * self.partition.config.min_insync_replicas <= len(self.log.members.voters) + 2:
            return committed  # a majority is as many
        return all_of([committed, self._leader_state.wait(self.log.last)])

    def _acknowledge(self) -> None:
        voters = set(self.voters)
        matched = [follower.matched for follower in self.followers() if follower.node in voters]
        self._leader_state.acknowledge(matched, self.partition.config.min_insync_replicas)

    def progress(self) -> Mapping[NodeId, ReplicaProgress]:
        """Of every member, this one too. Only on the leader."""
        set_back = self._broker.wall_time() - self._broker.now()
        return self._leader_state.progress(self.followers(), self.log, set_back)
