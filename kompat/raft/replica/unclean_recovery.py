"""Replicas that may lack what they have acknowledged, and what they must not do until they have caught up.

- A machine that stopped, where entries are not synced, may lack entries that it has acknowledged. Its votes are there, because
  those always are synced. It neither votes nor campaigns until it has applied all that a leader reports as committed. If there is
  no leader for long, all of them may be in doubt, and they go on with what they have.
- A data directory that was emptied or put back to an older state lacks votes, too: the replica may have voted in a later term than it
  knows. So it does not even answer leaders (it is *silent*) until one has reported, confirmed by a majority without it, what is
  committed. Else a deposed leader could commit by its answers. It never gives up by itself: to go on without acknowledged
  entries loses them, and an operator has to decide that (`accept_loss`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kompat.types import RaftIndex

if TYPE_CHECKING:
    from kompat.raft.replica.replica import Replica
    from kompat.raft.replication import Replication

logger = logging.getLogger(__name__)

FIRST_ASK, ASK_SECONDS = 0.05, 0.5
TELL_AFTER, TELL_AGAIN = 5.0, 60.0
COUNT_SECONDS = 0.25
RECOVERY_TERMS = 1 << 20  # that an unclean recovery adds to the term; the native engine has the same constant


class UncleanRecovery:
    __slots__ = ("_ask_in", "_broker", "_countdown", "_replica", "_tell_in", "_whole_at", "is_open", "is_silent")

    def __init__(self, replica: Replica, broker: Replication) -> None:
        self._replica = replica
        self._broker = broker
        self.is_open = False  # it may lack what it has acknowledged
        self.is_silent = False
        self._whole_at: RaftIndex | None = None  # with all up to there it has what was committed at its request
        self._ask_in = FIRST_ASK
        self._tell_in = TELL_AFTER
        self._countdown = 0  # the number of the one that counts

    def begin(self, *, is_silent: bool, seconds: float | None) -> None:
        """The disk may have lost what this replica has acknowledged, and, where it is to be silent, its votes.

        `seconds`: the time without a leader after which it goes on with what it has; None: never.
        """
        if self._replica.group.is_leader:  # the others have to elect one that is up to date
            self._replica.abandon()
        was_open, self.is_open = self.is_open, True
        self.is_silent = is_silent
        self._whole_at = None
        self._countdown += 1
        if seconds is not None:
            self._count_down(self._countdown, seconds, seconds)
        if not was_open:
            self._ask_in, self._tell_in = FIRST_ASK, TELL_AFTER
            self._ask()
        self._replica.group.muted = is_silent

    def _ask(self) -> None:
        replica = self._replica
        if not self.is_open or replica.partition.is_dropped:
            return
        if not replica.is_installing and replica.group.leader:
            replica.group.read_index(b"whole")
            self._broker.wake(replica)
        self._tell_in -= self._ask_in
        if self._tell_in <= 0:
            self._tell_in = TELL_AGAIN
            if self.is_silent:
                logger.warning("%s waits: %s", replica.partition, self.reason)
        self._broker.call_later(self._ask_in, self._ask)
        self._ask_in = min(ASK_SECONDS, 2 * self._ask_in)

    @property
    def reason(self) -> str:
        return (
            "this broker's data directory was emptied or put back to an older state, so its replica does not vote or count until "
            "a leader that the other replicas have elected brings it up to date; start the brokers that have them, or accept "
            "the loss of what only they have by an unclean election (kompat cluster elect --unclean)"
        )

    def answered(self, index: RaftIndex) -> None:
        """A leader, confirmed by a majority without this replica, reports what is committed."""
        if self.is_open:
            self.is_silent = False
            self._whole_at = index
            self.caught_up_to(self._replica.log.applied)

    def caught_up_to(self, index: RaftIndex) -> None:
        """Entries or a copy were applied. Once the replica has all that was committed, it stores that before it answers again."""
        if not self.is_open:
            return
        if self._whole_at is not None and index >= self._whole_at:
            self.is_open = False
        self._replica.group.muted = self.is_silent
        if not self.is_open:
            self.trust()

    def trust(self) -> None:
        """The replica has all that it has acknowledged, or all that there is."""
        log = self._replica.log
        self._replica.group.muted = False
        if not log.is_whole:
            log.trust()
            # Before it answers: others count on it from then on, and it must not be in doubt again, for good, because its machine
            # has stopped.
            self._broker.require_sync()

    def _count_down(self, number: int, seconds: float, left: float) -> None:
        """Go on with what this replica has after `seconds` without a leader. Where directories were put back, they count from the
        moment at which all voters are here: one that is away may have more, and they have to vote together, for else some of them could
        elect a leader without the one with the longest log."""
        replica = self._replica
        if number != self._countdown or not self.is_open or replica.partition.is_dropped:
            return
        if self.is_silent and not all(map(self._broker.is_here, replica.log.members.voters)):
            left = seconds
        elif left <= 0:
            self.is_open = self.is_silent = False
            self.trust()
            logger.warning("%s may have lost records, and found no leader to ask; it votes again", replica.partition)
            return
        later = left - COUNT_SECONDS
        self._broker.call_later(min(COUNT_SECONDS, max(left, 0)), lambda: self._count_down(number, seconds, later))

    def accept_loss(self) -> None:
        """An operator accepts the loss of what is not here: vote, in a term that no absent replica can have reached."""
        replica = self._replica
        logger.warning("%s: an operator has it go on with what is left", replica.partition)
        self.is_open = self.is_silent = False
        self.trust()
        replica.is_resting = True  # until it is written: Raft's readies till then are of the term before
        replica.log.raise_term(RECOVERY_TERMS)
        self._broker.require_sync()
        replica.partition.log.join_turn().add_done_callback(lambda _: replica.rise_anew())

    def start_over(self) -> None:
        """An operator had the others go on without what this replica has: it takes a copy of what they have now."""
        replica = self._replica
        logger.warning(
            "%s: the others were recovered without this replica; it is copied from them anew", replica.partition
        )
        replica.log.is_whole = False
        replica.is_installing = True
        replica.log.wait_for_copy()
        replica.end_installation()
        self.begin(is_silent=True, seconds=None)
