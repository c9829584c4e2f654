"""Whether a replica's promises are whole: what it does where they may be lost, and where an operator accepts that they are."""

from __future__ import annotations

import logging

from kompat.log.replica_core import ReplicaCore
from kompat.types import RaftIndex

logger = logging.getLogger(__name__)

RECOVERY_TERMS = 1 << 20  # by so many an unclean recovery moves the term on; the native engine knows it, too


class TrustedReplica(ReplicaCore):
    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.partition}, {self.role.name} in {self.epoch}>"

    def doubt(self, *, is_silent: bool, seconds: float | None) -> None:
        """The disk may have lost what this replica has acknowledged, and, where it is to be silent, its votes."""
        if self.group.is_leader:  # the others have to find one that knows
            self.partition.reload()
            self.partition.cut(RaftIndex(self.log.last + 1), self.partition.log_end_offset)
        self.doubts.begin(self, is_silent=is_silent, seconds=seconds)
        self.group.muted = is_silent

    def trust(self) -> None:
        """What it has is all that it has promised, or all that there is."""
        self.group.muted = False
        if not self.log.is_whole:
            self.log.trust()
            # Before it answers: others count on it from then on, and it must not be in doubt again, for good, because its machine
            # has stopped.
            self._host.require_sync()

    @property
    def is_in_doubt(self) -> bool:
        return self.doubts.is_silent

    def recover(self) -> None:
        """An operator accepts the loss of what is not here: vote, in a term that nobody who is away can know."""
        logger.warning("%s: an operator has it go on with what is left", self.partition)
        self.doubts.lift()
        self.trust()
        self._is_resting = True  # until it is written: what Raft says till then is of the term before
        self.log.raise_term(RECOVERY_TERMS)
        self._host.require_sync()
        self.partition.join_turn().add_done_callback(lambda _: self._recovered())

    def _recovered(self) -> None:
        self._is_resting = False
        if not self._is_over and not self.is_installing:
            self.take_up()

    def _start_over(self) -> None:
        """An operator had the others go on without what this replica has: it takes a copy of what they have now."""
        logger.warning(
            "%s: the others were recovered without this replica; it is copied from them anew", self.partition
        )
        self.log.is_whole = False
        self.is_installing = True
        self.log.wait_for_copy()
        self.end_installation()
        self.doubt(is_silent=True, seconds=None)

    def _look_at_doubts(self) -> None:
        self.group.muted = self.doubts.is_silent
        if not self.doubts.is_open:
            self.trust()
