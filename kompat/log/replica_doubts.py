"""Replicas that may lack what they have promised, and what they may not do until they know better.

- A machine that stopped, where entries are not synced, may lack entries that it has acknowledged. Its votes are there, because
  those always are synced. It neither votes nor stands until it has applied all that a leader says is committed. Should there be no
  leader for long, all of them may be in doubt, and somebody has to go on.
- A data directory that was emptied or put back to an older state lacks votes, too: the replica may have promised a later term than it
  knows. So it does not even answer leaders (it is *silent*) until one has said, confirmed by a majority without it, what is
  committed. Else a leader that the others have given up could commit by its answers. It never gives up by itself: whoever goes on
  without what was acknowledged loses it, and that is for an operator to decide (`recover`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kompat.log.replica_host import Host
from kompat.types import RaftIndex

if TYPE_CHECKING:
    from kompat.log.replica_core import ReplicaCore

logger = logging.getLogger(__name__)

FIRST_ASK, ASK_SECONDS = 0.05, 0.5
TELL_AFTER, TELL_AGAIN = 5.0, 60.0
COUNT_SECONDS = 0.25


class Doubts:
    __slots__ = ("_ask_in", "_countdown", "_host", "_tell_in", "_whole_at", "is_open", "is_silent")

    def __init__(self, host: Host) -> None:
        self._host = host
        self.is_open = False
        self.is_silent = False
        self._whole_at: RaftIndex | None = None  # with all up to there it has what was committed when it asked
        self._ask_in = FIRST_ASK
        self._tell_in = TELL_AFTER
        self._countdown = 0  # the number of the one that counts

    def begin(self, replica: ReplicaCore, *, is_silent: bool, seconds: float | None) -> None:
        """`seconds`: after so long without a leader it goes on with what it has; None: never."""
        was_open, self.is_open = self.is_open, True
        self.is_silent = is_silent
        self._whole_at = None
        self._countdown += 1
        if seconds is not None:
            self._count_down(replica, self._countdown, seconds, seconds)
        if not was_open:
            self._ask_in, self._tell_in = FIRST_ASK, TELL_AFTER
            self._ask(replica)

    def _ask(self, replica: ReplicaCore) -> None:
        if not self.is_open or replica.partition.is_dropped:
            return
        if not replica.is_installing and replica.group.leader:
            replica.group.read_index(b"whole")
            self._host.wake(replica)
        self._tell_in -= self._ask_in
        if self._tell_in <= 0:
            self._tell_in = TELL_AGAIN
            if self.is_silent:
                logger.warning("%s waits: %s", replica.partition, self.reason)
        self._host.call_later(self._ask_in, lambda: self._ask(replica))
        self._ask_in = min(ASK_SECONDS, 2 * self._ask_in)

    @property
    def reason(self) -> str:
        return (
            "this broker's data directory was emptied or put back to an older state, so its replica does not vote or count until "
            "a leader that the other replicas have elected brings it up to date; start the brokers that have them, or accept "
            "the loss of what only they have by an unclean election (kompat cluster elect --unclean)"
        )

    def answered(self, index: RaftIndex, applied: RaftIndex) -> None:
        self.is_silent = False  # the leader is confirmed by a majority that has not counted this replica
        self._whole_at = index
        self.applied(applied)

    def applied(self, index: RaftIndex) -> None:
        if self._whole_at is not None and index >= self._whole_at:
            self.is_open = False

    def lift(self) -> None:
        """An operator accepts what may be lost."""
        self.is_open = self.is_silent = False

    def _count_down(self, replica: ReplicaCore, number: int, seconds: float, left: float) -> None:
        """Go on with what is here after so long without a leader. Where directories were put back, that is counted from the moment
        at which all voters are here: one that is away may have more, and they have to vote together, for else some of them could
        elect a leader without the one with the longest log."""
        if number != self._countdown or not self.is_open or replica.partition.is_dropped:
            return
        if self.is_silent and not all(map(self._host.is_here, replica.log.members.voters)):
            left = seconds
        elif left <= 0:
            self._give_up(replica)
            return
        later = left - COUNT_SECONDS
        self._host.call_later(
            min(COUNT_SECONDS, max(left, 0)), lambda: self._count_down(replica, number, seconds, later)
        )

    def _give_up(self, replica: ReplicaCore) -> None:
        self.lift()
        replica.trust()
        logger.warning("%s may have lost records, and found no leader to ask; it votes again", replica.partition)
