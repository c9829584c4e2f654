"""A leader's state of its followers: which are in sync, and which appends wait for more of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError
from kompat.raft.isr import IsrTracker
from kompat.raft.replica.min_isr import MinIsrAcks
from kompat.types import Millis, NodeId, Offset, RaftIndex

if TYPE_CHECKING:
    from kompat.raft.replica.log import ReplicaLog


class Follower(NamedTuple):
    """A member of the group as the leader sees it; the leader itself is one."""

    node: NodeId
    matched: RaftIndex  # the last entry that it is known to have
    is_voter: bool
    is_up: bool


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """How far the leader knows a replica to be."""

    index: RaftIndex
    log_end_offset: Offset
    lag: int  # in entries
    last_caught_up: Millis  # by the wall clock; -1: never
    is_up: bool


class LeaderState:
    __slots__ = ("_acks", "_isr", "in_sync", "looked")

    def __init__(self) -> None:
        self._isr = IsrTracker()
        self._acks = MinIsrAcks()
        self.in_sync: list[NodeId] = []
        self.looked = Millis(0)

    def begin(self, nodes: list[NodeId], now: Millis) -> None:
        self._isr.begin(nodes, now)

    def look(self, followers: Iterable[Follower], last: RaftIndex, now: Millis, lag_ms: int) -> bool:
        """Whether others are in sync than before."""
        limit = now - lag_ms
        in_sync = []
        for follower in followers:
            if follower.is_up:
                self._isr.look(follower.node, follower.matched, last, now)
                if follower.is_voter and (self._isr.at(follower.node) or limit - 1) >= limit:
                    in_sync.append(follower.node)
        self.looked = now
        has_changed, self.in_sync = in_sync != self.in_sync, in_sync
        return has_changed

    def progress(self, followers: Iterable[Follower], log: ReplicaLog, set_back: int) -> dict[NodeId, ReplicaProgress]:
        """`set_back`: what the wall clock shows more than the one by which followers are looked at."""
        found = {}
        for node, matched, _, is_up in followers:
            at = self._isr.at(node)
            last_caught_up = Millis(-1 if at is None else at + set_back)
            end, lag = log.offset_after(matched), log.last - matched
            found[node] = ReplicaProgress(matched, end, lag, last_caught_up, is_up)
        return found

    # -- min.insync.replicas ---------------------------------------------------------------------------------------
    def require_in_sync(self, least: int) -> None:
        if len(self.in_sync) < least:
            raise self._too_few(ErrorCode.NOT_ENOUGH_REPLICAS, least)

    @property
    def has_waiting(self) -> bool:
        """Whether appends wait for more replicas than a majority."""
        return self._acks.is_awaited

    def wait(self, index: RaftIndex) -> Promise[None]:
        return self._acks.wait(index)

    def acknowledge(self, matched: Sequence[RaftIndex], least: int) -> None:
        """`matched`: the last entries that the voters have."""
        if least <= len(matched):
            self._acks.reached(sorted(matched, reverse=True)[least - 1])
        if len(self.in_sync) < least:
            self._acks.give_up(self._too_few(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, least))

    def _too_few(self, code: ErrorCode, least: int) -> KafkaError:
        return KafkaError(code, f"{len(self.in_sync)} replicas are in sync, and {least} have to be")

    def give_up(self, error: KafkaError) -> None:
        """Another leads."""
        self._acks.give_up(error)
