"""The Raft engine: one `RaftGroup` per replica, driven by the owner of the log and the links.

A group takes `propose`, `step` (a peer's message) and `tick`, and collects what follows from them. After each turn:

    while ready := group.ready():
        1. send `ready.messages` (a leader's appends leave while its own write is under way);
        2. if `ready.snapshot`: put its content, which was fetched before, in the place of the whole log;
        3. write `ready.entries` and `ready.hard_state` in one batch. The log is cut before the first entry's index:
           entries that lie there belong to a leader that lost;
        4. apply `ready.committed_from … ready.committed_to`: call `apply_membership(entry.index, entry.payload)` for
           each of `ready.memberships` and keep the members it returns, then `applied(ready.committed_to)`, or for a
           snapshot `applied(ready.snapshot.index)` once it is persisted;
        5. when the write is on disk: `persisted(ready.number)`, then send `ready.messages_after_persist`, then start
           again: what was persisted may have been committed by it.

Several readies may be under way; they are written in order, `persisted(n)` covers all up to n, and messages after
persist leave in the order of their readies. So a ready without `must_sync` is persisted at once only where no earlier
one is still being written. Only what this replica has persisted itself is reported as committed.

What the log must give back at a start is a `GroupState`. Payloads cross without a copy: a proposed buffer, or a slice
of a received frame, comes out of `Ready` and `Message` as the same object, and must not be changed after it went in.

- Old entries are not kept in memory. `ready.wanted` requests them; read them (at least one, about `max_bytes`), then
  `supply_entries(want.id, …)`, or supply none when they cannot be read: the follower's next answer requests them again.
- A follower that needs compacted entries is offered a snapshot: a message of kind SNAPSHOT with its index, term and
  members. Send it ahead of the bulk. The receiver looks with `describe_message`, fetches the bulk, and only then steps
  the message; the group may still find it needless. The sender reports `report_snapshot(to, ok)` in the end.
- A group begins with `fresh_state`, the same on each founder; a replica that joins later begins with `EMPTY_STATE` and gets a
  snapshot, because the founders' logs do not begin at zero. A voter is added as learner first, then promoted.
- A broker that does not sync may come back without the end of a log that it has acknowledged. When a peer is
  linked again after a restart, call `reset_peer`: else the leader relies on its old acknowledgements, and it refuses heartbeats.
- Ids are numbers above zero. Randomness comes from `seed` alone, so a run with the same inputs repeats itself.
- `RaftPanic` means that the engine found its state broken. The group refuses everything from then on; stop the broker.

Many groups share a `RaftGroups`: one `tick` for all, heartbeats of all in one blob per peer (`take_heartbeats`,
`step_heartbeats`, `step_heartbeat_replies`). With `quiet_after` groups that had nothing to do for that many ticks
stop heartbeats and election timers on all replicas; a proposal or a message wakes them, and the owner of the links has
to call `wake(peer)` when it loses a peer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from kompat._native import (
    ConfState,
    EntriesWanted,
    Entry,
    HardState,
    MembershipRefused,
    Message,
    MessageRefused,
    NotLeader,
    PeerProgress,
    RaftError,
    RaftGroup,
    RaftGroups,
    RaftPanic,
    ReadState,
    Ready,
    Snapshot,
    SoftState,
    Status,
    describe_message,
)
from kompat.types import Buffer

__all__ = [
    "EMPTY_STATE",
    "ChangeKind",
    "ConfState",
    "EntriesWanted",
    "Entry",
    "EntryTuple",
    "GroupState",
    "HardState",
    "MembershipRefused",
    "Message",
    "MessageKind",
    "MessageRefused",
    "NotLeader",
    "PeerProgress",
    "Position",
    "RaftEntryKind",
    "RaftError",
    "RaftGroup",
    "RaftGroups",
    "RaftPanic",
    "ReadState",
    "Ready",
    "Role",
    "Settings",
    "Snapshot",
    "SoftState",
    "Status",
    "describe_message",
    "fresh_state",
    "open_group",
]

Position = tuple[int, int]
"""An index and the term of its entry."""

EntryTuple = tuple[int, int, int, bytes, Buffer]
"""An entry on its way in: index, term, kind, context, payload."""


class Role(IntEnum):
    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2
    PRE_CANDIDATE = 3


class RaftEntryKind(IntEnum):
    NORMAL = 0
    MEMBERSHIP = 2


class ChangeKind(IntEnum):
    ADD_VOTER = 0
    REMOVE = 1
    ADD_LEARNER = 2


class MessageKind(IntEnum):
    """The kinds that travel between brokers."""

    APPEND = 3
    APPEND_RESPONSE = 4
    REQUEST_VOTE = 5
    REQUEST_VOTE_RESPONSE = 6
    SNAPSHOT = 7
    HEARTBEAT = 8
    HEARTBEAT_RESPONSE = 9
    TIMEOUT_NOW = 14
    READ_INDEX = 15
    READ_INDEX_RESPONSE = 16
    REQUEST_PRE_VOTE = 17
    REQUEST_PRE_VOTE_RESPONSE = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A replica as it lies on disk."""

    members: ConfState
    """As of `applied`."""

    hard_state: HardState
    base: Position
    """What precedes the log: the last compacted entry, or the snapshot that the log began with."""

    last: int
    """The last entry; `base[0]` where there is none."""

    runs: Sequence[Position] = ()
    """The first index of each term in the log, in order."""

    applied: int
    memberships: Sequence[EntryTuple] = ()
    """The changes of members after `applied`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    election_tick: int = 10
    """Ticks without a leader before an election: this many at least, less than twice as many."""

    heartbeat_tick: int = 1
    max_bytes: int = 1 << 20
    """Payload bytes of one append; a larger entry travels alone."""

    max_inflight: int = 64
    """Appends on their way to one follower."""

    cache_bytes: int = 4 << 20
    """Persisted payloads kept for followers that are a little behind."""

    tell_commits: bool = True
    """Whether followers learn of a commit at once, or with the next append or heartbeat: half as many messages."""


FOUNDING: Position = (1, 1)

EMPTY_STATE = GroupState(members=ConfState(), hard_state=HardState(), base=(0, 0), last=0, applied=0)
"""A replica that has nothing, and waits for a snapshot."""


def fresh_state(voters: Sequence[int], learners: Sequence[int] = ()) -> GroupState:
    """A founder of a new group. Its log begins after an entry that never existed, so that an empty replica needs a snapshot."""
    index, term = FOUNDING
    hard_state = HardState(term, 0, index)
    members = ConfState(voters, learners)
    return GroupState(members=members, hard_state=hard_state, base=FOUNDING, last=index, applied=index)


def open_group(node_id: int, state: GroupState, *, seed: int, settings: Settings | None = None) -> RaftGroup:
    """Raises ValueError where the state contradicts itself."""
    chosen = settings or Settings()
    return RaftGroup(
        id=node_id,
        members=state.members,
        hard_state=state.hard_state,
        base=state.base,
        last=state.last,
        runs=state.runs,
        applied=state.applied,
        memberships=state.memberships,
        seed=seed,
        election_tick=chosen.election_tick,
        heartbeat_tick=chosen.heartbeat_tick,
        max_bytes=chosen.max_bytes,
        max_inflight=chosen.max_inflight,
        cache_bytes=chosen.cache_bytes,
        tell_commits=chosen.tell_commits,
    )
