"""What a replica keeps beside its log, and what its entries carry besides batches. Pure.

| state's name | value |
| --- | --- |
| `raft/hard` | term, vote, commit index, and the index up to which entries are applied |
| `raft/terms` | which term began at which index |
| `raft/members` | who belongs to the group, as of the applied index |
| `raft/start` | where the log starts, by the last START entry that was applied |
| `raft/directory` | the id of the data directory that this replica's promises are whole in; empty: of none |
| `raft/installing` | the last index that this replica ever had: a copy of the leader's log is being made in its place |

An entry's *context* is what Raft's messages carry besides a batch: nothing for a batch alone, else its kind and payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from kompat.log.epochs import Epochs
from kompat.log.interceptor import StateWrite
from kompat.log.storage.store import EntryKind, PartitionStore
from kompat.raft.engine import ConfState
from kompat.types import Offset, RaftIndex

PREFIX: Final = b"raft/"
AFTER_PREFIX: Final = b"raft0"  # the first name after all that begin with it
HARD: Final = b"raft/hard"
TERMS: Final = b"raft/terms"
MEMBERS: Final = b"raft/members"
START: Final = b"raft/start"
INSTALLING: Final = b"raft/installing"
DIRECTORY: Final = b"raft/directory"

_HARD = Struct(">QQQQ")
_PAIR = Struct(">qq")
_NUMBER = Struct(">q")
_COUNTS = Struct(">HHHH?")
_NODE = Struct(">Q")
_NAME = Struct(">H")
_VALUE = Struct(">i")
_DELETED: Final = -1


class Hard(NamedTuple):
    """What must survive a restart besides the log."""

    term: int
    vote: int
    commit: RaftIndex
    applied: RaftIndex

    def encode(self) -> bytes:
        return _HARD.pack(*self)

    @classmethod
    def decode(cls, value: bytes) -> Hard:
        return cls._make(_HARD.unpack(value))


def load_hard(store: PartitionStore) -> Hard | None:
    value = store.state(HARD)
    return Hard.decode(value) if value is not None else None


def encode_terms(terms: Epochs) -> bytes:
    return b"".join(_PAIR.pack(*pair) for pair in terms.entries())


def load_terms(store: PartitionStore) -> Epochs:
    return Epochs(_PAIR.iter_unpack(store.state(TERMS) or b""))


def encode_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def load_number(store: PartitionStore, name: bytes) -> int | None:
    value = store.state(name)
    return _NUMBER.unpack(value)[0] if value is not None else None


def encode_members(members: ConfState) -> bytes:
    parts = (members.voters, members.learners, members.voters_outgoing, members.learners_next)
    counts = _COUNTS.pack(*map(len, parts), members.auto_leave)
    return counts + b"".join(_NODE.pack(node) for part in parts for node in part)


def decode_members(value: bytes) -> ConfState:
    voters, learners, outgoing, following, auto_leave = _COUNTS.unpack_from(value)
    nodes = iter([node for (node,) in _NODE.iter_unpack(value[_COUNTS.size :])])
    parts: list[list[int]] = [list(islice(nodes, count)) for count in (voters, learners, outgoing, following)]
    return ConfState(parts[0], parts[1], parts[2], parts[3], auto_leave)


def load_members(store: PartitionStore) -> ConfState:
    value = store.state(MEMBERS)
    return decode_members(value) if value is not None else ConfState()


# -- what entries carry ------------------------------------------------------------------------------------------------
def encode_writes(writes: Iterable[StateWrite]) -> bytes:
    parts: list[bytes] = []
    for name, value in writes:
        parts += (_NAME.pack(len(name)), name)
        parts += (_VALUE.pack(_DELETED),) if value is None else (_VALUE.pack(len(value)), value)
    return b"".join(parts)


def decode_writes(payload: bytes) -> Sequence[StateWrite]:
    writes: list[StateWrite] = []
    at = 0
    while at < len(payload):
        end = at + _NAME.size + _NAME.unpack_from(payload, at)[0]
        name = payload[at + _NAME.size : end]
        length = _VALUE.unpack_from(payload, end)[0]
        at = end + _VALUE.size + max(length, 0)
        writes.append((name, None if length == _DELETED else payload[end + _VALUE.size : at]))
    return writes


def encode_start(offset: Offset) -> bytes:
    return _NUMBER.pack(offset)


def decode_start(payload: bytes) -> Offset:
    return Offset(_NUMBER.unpack(payload)[0])


def context(kind: EntryKind, payload: bytes) -> bytes:
    """What goes with an entry of this kind, besides its batch."""
    return bytes((kind,)) + payload if payload else b""


def of_context(context: bytes, batch_size: int) -> tuple[EntryKind, bytes]:
    """The kind and payload of an entry that is no change of members."""
    if not context:
        return (EntryKind.DATA if batch_size else EntryKind.NOOP), b""
    return EntryKind(context[0]), context[1:]
