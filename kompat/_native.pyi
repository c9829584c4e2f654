from collections.abc import Iterable, Sequence

from kompat.types import Buffer

class BatchError(Exception):
    """args: Kafka's error code, a message, the indices of the records at fault."""

    args: tuple[int, str, list[int]]

class BatchTooLarge(BatchError):  # noqa: N818 (it says what is the case)
    """It unpacks to more than the limit."""

class Facts:
    """What one pass over a batch's records found."""

    @property
    def max_timestamp(self) -> int:
        """The newest timestamp that a record carries."""

    @property
    def delta_of_max_timestamp(self) -> int:
        """The offset delta of the first record that carries it: add the batch's base offset."""

    @property
    def min_timestamp(self) -> int: ...
    @property
    def null_key_index(self) -> int:
        """The first record without a key, or -1."""

    @property
    def named(self) -> int:
        """Which of the names that were looked for some record has a header of: a bit for each, the first the lowest."""

class HeaderNames:
    """Names of headers to look for, prepared once; at most 64.

    `contexts`: those of them that are W3C trace contexts. They count only where the sampled flag is set.
    """

    def __new__(cls, names: Sequence[bytes], contexts: Sequence[bytes] = ()) -> HeaderNames: ...

def crc32c(data: Buffer, start: int = 0) -> int: ...
def whole_batches(data: Buffer) -> int:
    """How many bytes of whole batches the data begins with: all of it, unless one is cut off or not what was written."""

def compress(codec: int, data: Buffer, level: int | None = None) -> bytes: ...
def decompress(codec: int, data: Buffer, limit: int) -> bytes: ...
def check_batch(batch: Buffer, require_keys: bool, limit: int, names: HeaderNames) -> Facts: ...
def refused_records(
    batch: Buffer, limit: int, require_keys: bool, times: tuple[int, int] | None, most: int
) -> tuple[int, bool, list[tuple[int, int | None]]]:
    """How many, whether some for their times, and the first `most`: each one's place and its timestamp, None where it lacks a key."""

def find_by_timestamp(batch: Buffer, timestamp: int, limit: int) -> tuple[int, int] | None: ...
def read_records(
    batch: Buffer, limit: int, names: HeaderNames | None = None
) -> list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]: ...
def write_records(records: Iterable[object], base_offset: int, base_timestamp: int) -> bytes: ...

class NamePattern:
    """A regular expression in RE2's syntax; ValueError, with the reason, where it is none or too large."""

    def __new__(cls, expression: str) -> NamePattern: ...
    def select(self, names: Sequence[str]) -> list[str]:
        """Those of the names that match as a whole, in their order."""

def xxh3_64(data: Buffer) -> int:
    """XXH3 of 64 bits with seed 0, unsigned. Kafka keeps this hash of the subscribed topics in a group's metadata record."""

def certificate_subject(certificate: Buffer) -> str:
    """The subject of a certificate in DER as Java's X500Principal has it (RFC 2253); ValueError where it is no certificate."""

class RaftError(Exception):
    """What a Raft group refuses."""

class NotLeader(RaftError):  # noqa: N818 (it says what is the case)
    """args: a message, the id of the leader (0: none is known)."""

    args: tuple[str, int]

class MessageRefused(RaftError):  # noqa: N818 (it says what is the case)
    """A message from a peer that cannot be right."""

class MembershipRefused(RaftError):  # noqa: N818 (it says what is the case)
    """A change of members that cannot be made now."""

class RaftPanic(Exception):  # noqa: N818 (it says what is the case)
    """The engine found its own state broken: the group is lost for this process, and the broker has to stop."""

class ConfState:
    """The members of a group as of some entry. While it changes from one set of voters to another, both are needed."""

    def __new__(
        cls,
        voters: Sequence[int] = (),
        learners: Sequence[int] = (),
        voters_outgoing: Sequence[int] = (),
        learners_next: Sequence[int] = (),
        auto_leave: bool = False,
    ) -> ConfState: ...
    @property
    def voters(self) -> list[int]: ...
    @property
    def learners(self) -> list[int]: ...
    @property
    def voters_outgoing(self) -> list[int]:
        """The voters before the change; not empty only in the joint state."""

    @property
    def learners_next(self) -> list[int]:
        """Voters before the change that are learners after it."""

    @property
    def auto_leave(self) -> bool:
        """Whether the leader ends the joint state by itself."""

    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class HardState:
    """What must survive a restart besides the log."""

    def __new__(cls, term: int = 0, vote: int = 0, commit: int = 0) -> HardState: ...
    @property
    def term(self) -> int: ...
    @property
    def vote(self) -> int: ...
    @property
    def commit(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class SoftState:
    @property
    def role(self) -> int: ...
    @property
    def leader(self) -> int: ...

class Entry:
    @property
    def index(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def context(self) -> bytes: ...
    @property
    def payload(self) -> Buffer:
        """The object that was proposed or came with the message, not a copy; empty for a new leader's first entry."""

class Snapshot:
    """What a snapshot stands for; its bulk travels outside of Raft's messages."""

    @property
    def index(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def members(self) -> ConfState: ...
    @property
    def data(self) -> bytes: ...

class Message:
    @property
    def sender(self) -> int: ...
    @property
    def to(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def header(self) -> bytes: ...
    @property
    def payloads(self) -> list[Buffer]: ...
    @property
    def snapshot(self) -> Snapshot | None:
        """Only of a message that offers one."""

class EntriesWanted:
    """Entries [first, end) that followers need and that are not in memory."""

    @property
    def id(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def followers(self) -> list[int]: ...

class ReadState:
    @property
    def index(self) -> int: ...
    @property
    def context(self) -> bytes: ...

class Ready:
    """What a turn has brought; `kompat.raft.engine` says in which order it is worked off."""

    @property
    def number(self) -> int: ...
    @property
    def must_sync(self) -> bool:
        """False: nothing here has to be on disk before `persisted` is called."""

    @property
    def hard_state(self) -> HardState | None:
        """The new one, if it has changed."""

    @property
    def soft_state(self) -> SoftState | None:
        """The new one, if it has changed."""

    @property
    def snapshot(self) -> Snapshot | None:
        """To be installed instead of all of the log, before the entries are written."""

    @property
    def entries(self) -> list[Entry]:
        """To be written; whatever the log has from the first one's index on is replaced."""

    @property
    def messages(self) -> list[Message]:
        """To be sent now."""

    @property
    def messages_after_persist(self) -> list[Message]:
        """To be sent when this ready, and all before it, are on disk."""

    @property
    def committed_from(self) -> int:
        """The first entry that is committed now, 0 for none."""

    @property
    def committed_to(self) -> int:
        """The last entry that is committed now, 0 for none."""

    @property
    def memberships(self) -> list[Entry]:
        """The changes of members among the committed: each goes to `apply_membership`."""

    @property
    def read_states(self) -> list[ReadState]: ...
    @property
    def wanted(self) -> list[EntriesWanted]: ...

class PeerProgress:
    """How far the leader knows a member to be."""

    @property
    def id(self) -> int: ...
    @property
    def matched(self) -> int: ...
    @property
    def next(self) -> int: ...
    @property
    def state(self) -> str:
        """probe, replicate or snapshot."""

    @property
    def recent_active(self) -> bool: ...
    @property
    def pending_snapshot(self) -> int: ...

class Status:
    @property
    def id(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def vote(self) -> int: ...
    @property
    def role(self) -> int: ...
    @property
    def leader(self) -> int: ...
    @property
    def first(self) -> int:
        """The first entry that is not compacted."""

    @property
    def last(self) -> int: ...
    @property
    def persisted(self) -> int: ...
    @property
    def commit(self) -> int: ...
    @property
    def applied(self) -> int: ...
    @property
    def cached_bytes(self) -> int: ...
    @property
    def quiet(self) -> bool: ...
    @property
    def transferring_to(self) -> int: ...
    @property
    def members(self) -> ConfState: ...
    @property
    def peers(self) -> list[PeerProgress]:
        """All members, this one too; empty where this replica does not lead."""

class RaftGroup:
    """One replica of one group. Use `kompat.raft.engine.open_group`."""

    def __new__(
        cls,
        *,
        id: int,  # noqa: A002
        members: ConfState,
        hard_state: HardState,
        base: tuple[int, int],
        last: int,
        runs: Sequence[tuple[int, int]],
        applied: int,
        seed: int,
        memberships: Sequence[tuple[int, int, int, bytes, Buffer]] = (),
        election_tick: int = 10,
        heartbeat_tick: int = 1,
        max_bytes: int = 1048576,
        max_inflight: int = 64,
        cache_bytes: int = 4194304,
        tell_commits: bool = True,
    ) -> RaftGroup: ...
    @property
    def id(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def leader(self) -> int: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def commit(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def quiet(self) -> bool: ...
    muted: bool
    """Heartbeats are not answered: nobody knows what this replica has promised."""

    @property
    def outdated(self) -> bool:
        """The others have gone on in a term that only an unclean recovery leads to: what is here may contradict theirs."""

    @property
    def cached_bytes(self) -> int: ...
    def status(self) -> Status: ...
    def term_at(self, index: int) -> int | None:
        """The term of an entry; None where it is compacted or not there yet."""

    def tick(self) -> bool:
        """Let a tick pass; whether there is a ready."""

    def campaign(self) -> None: ...
    def propose(self, payload: Buffer, context: bytes | None = None) -> tuple[int, int]:
        """The entry's index and term. Raises NotLeader."""

    def step(self, header: bytes, payloads: Sequence[Buffer]) -> None:
        """Take a peer's message. Raises MessageRefused."""

    def has_ready(self) -> bool: ...
    def ready(self) -> Ready | None: ...
    def persisted(self, number: int) -> None:
        """The ready of this number, and all before it, are on disk."""

    def applied(self, index: int) -> None:
        """All up to this index is applied."""

    def propose_membership(
        self, changes: Sequence[tuple[int, int]], joint: bool = False, auto_leave: bool = True
    ) -> tuple[int, int]:
        """Changes are (kind, id); none leaves the joint state. Raises NotLeader, MembershipRefused."""

    def apply_membership(self, index: int, payload: Buffer) -> ConfState:
        """Apply a committed change of members; call `applied` with its index or a later one next."""

    def transfer_leadership(self, to: int) -> None: ...
    def read_index(self, context: bytes) -> bool:
        """Ask for a read state; False where no leader can be asked now. A request may get lost: set a deadline."""

    def supply_entries(self, want: int, entries: Sequence[tuple[int, int, int, bytes, Buffer]]) -> None:
        """What was read for an EntriesWanted: index, term, kind, context, payload. None: the wish is forgotten."""

    def pin_snapshot(self, index: int, members: ConfState | None = None, data: bytes | None = None) -> None:
        """Offer followers this snapshot instead of one of what is applied when they need it."""

    def unpin_snapshot(self) -> None: ...
    def report_snapshot(self, to: int, ok: bool) -> None: ...
    def report_unreachable(self, peer: int) -> None: ...
    def reset_peer(self, peer: int) -> None:
        """Find out anew how far a peer is: it has restarted, and may have lost what it had not synced."""

    def ping(self) -> None:
        """Send heartbeats now, if this replica leads."""

    def compact(self, index: int) -> None:
        """Forget the log up to this applied index: who needs it gets a snapshot."""

    def trim_cache(self, limit: int) -> None:
        """Let go of persisted entries until at most so many bytes are cached."""

    def become_quiet(self) -> bool:
        """Take no more ticks until something happens; False where there is something to do."""

    def wake(self) -> None: ...

class RaftGroups:
    """What all groups of a broker share: one tick, and heartbeats in one piece per peer."""

    def __new__(cls, id: int, quiet_after: int = 0) -> RaftGroups: ...  # noqa: A002
    def __len__(self) -> int: ...
    def add(self, key: int, group: RaftGroup) -> None: ...
    def remove(self, key: int) -> None: ...
    def tick(self) -> list[int]:
        """Let a tick pass in all groups; the keys of those that have a ready."""

    def take_heartbeats(self) -> list[tuple[int, bytes]]:
        """What the ticks since the last call send to each peer."""

    def step_heartbeats(self, sender: int, blob: bytes) -> tuple[bytes, list[int], list[int], list[tuple[int, str]]]:
        """The answer for the sender (empty: none); groups with a ready; keys of no group; groups that refused, and why."""

    def step_heartbeat_replies(self, sender: int, blob: bytes) -> list[int]:
        """Take an answer; groups with a ready."""

    def reset_peer(self, peer: int) -> None:
        """`RaftGroup.reset_peer` in all groups that are led here."""

    def wake(self, peer: int) -> int:
        """Wake the quiet groups that have this peer as a member: call it when a broker is lost."""

def describe_message(header: bytes) -> Message:
    """What a header says, without giving it to a group: a snapshot's bulk is fetched before its message is stepped."""
