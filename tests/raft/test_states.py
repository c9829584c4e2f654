"""What replicas keep and send beside batches comes back as it was."""

from hypothesis import given
from hypothesis import strategies as st

from kompat.log.storage.store import EntryKind
from kompat.raft import states as states
from kompat.raft.engine import ConfState
from kompat.raft.isr import IsrTracker
from kompat.raft.states import Hard
from kompat.types import Millis, NodeId, Offset, RaftIndex
from tests.log.support import LOG_ID, Disk

numbers = st.integers(0, 2**63 - 1)
names = st.binary(max_size=300)


@given(st.lists(st.tuples(names, st.none() | st.binary(max_size=300))))
def test_writes(writes: list[tuple[bytes, bytes | None]]) -> None:
    assert states.decode_writes(states.encode_writes(writes)) == writes


@given(st.sets(st.integers(1, 2**63), min_size=1, max_size=9), st.integers(0, 8), st.booleans())
def test_members(nodes: set[int], learners: int, is_joint: bool) -> None:
    ordered = sorted(nodes)
    voters = ordered[: max(1, len(ordered) - learners)]
    members = ConfState(voters, ordered[len(voters) :], voters if is_joint else [], [], is_joint)
    assert states.decode_members(states.encode_members(members)) == members


@given(numbers, numbers, numbers, numbers)
def test_hard_state(term: int, vote: int, commit: int, applied: int) -> None:
    disk = Disk()
    store = disk.open(LOG_ID)
    assert states.load_hard(store) is None
    hard = Hard(term, vote, RaftIndex(commit), RaftIndex(applied))
    store.put_state(states.HARD, hard.encode())
    disk.flush()
    assert states.load_hard(store) == hard


@given(st.sampled_from([EntryKind.DATA, EntryKind.STATES, EntryKind.START]), st.binary(min_size=1))
def test_context(kind: EntryKind, payload: bytes) -> None:
    assert states.of_context(states.context(kind, payload), 0) == (kind, payload)


def test_an_entry_with_nothing_besides_is_a_batch_or_a_leaders_first() -> None:
    assert states.context(EntryKind.DATA, b"") == b""
    assert states.of_context(b"", 100) == (EntryKind.DATA, b"")
    assert states.of_context(b"", 0) == (EntryKind.NOOP, b"")
    assert states.decode_start(states.encode_start(Offset(7))) == 7


# -- who is in sync ----------------------------------------------------------------------------------------------------
FOLLOWER = NodeId(2)


def look(caught_up: IsrTracker, matched: int, last: int, now: int) -> int | None:
    caught_up.look(FOLLOWER, RaftIndex(matched), RaftIndex(last), Millis(now))
    return caught_up.at(FOLLOWER)


def test_a_follower_that_has_all_is_caught_up_now() -> None:
    assert look(IsrTracker(), 10, 10, 500) == 500


def test_a_follower_of_a_growing_log_was_caught_up_when_the_log_ended_where_it_is() -> None:
    caught_up = IsrTracker()
    assert look(caught_up, 10, 20, 100) is None
    assert look(caught_up, 15, 30, 200) is None
    assert look(caught_up, 25, 40, 300) == 100
    assert look(caught_up, 41, 50, 400) == 300


def test_a_follower_that_stands_still_falls_behind() -> None:
    caught_up = IsrTracker()
    caught_up.begin([FOLLOWER], Millis(100))
    for now in range(200, 1000, 100):
        assert look(caught_up, 10, 20 + now, now) == 100
