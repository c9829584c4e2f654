"""A replica whose machine has stopped, and that does not sync, may lack entries that it has acknowledged.

Until it knows better it neither votes nor stands: else a majority could be found that has forgotten what was committed. It knows
better when it has applied all that a leader says is committed. Should there be no leader for long, all of them may be in doubt, and
somebody has to go on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kompat.log.replica_host import Host
from kompat.types import RaftIndex

if TYPE_CHECKING:
    from kompat.log.replica_core import ReplicaCore

logger = logging.getLogger(__name__)

ASK_SECONDS = 0.5


class Doubts:
    __slots__ = ("_applied", "_host", "_whole_at", "is_open")

    def __init__(self, host: Host) -> None:
        self._host = host
        self.is_open = False
        self._whole_at: RaftIndex | None = None  # with all up to there it has what was committed when it asked
        self._applied = RaftIndex(0)

    def begin(self, replica: ReplicaCore, seconds: float) -> None:
        self.is_open = True
        self._applied = replica.log.applied
        self._host.call_later(seconds, lambda: self._give_up(replica))
        self._ask(replica)

    def _ask(self, replica: ReplicaCore) -> None:
        if self.is_open and not replica.partition.is_dropped:
            if not replica.is_installing and replica.group.leader:
                replica.group.read_index(b"whole")
                self._host.wake(replica)
            self._host.call_later(ASK_SECONDS, lambda: self._ask(replica))

    def answered(self, index: RaftIndex) -> None:
        self._whole_at = index
        self.applied(self._applied)

    def applied(self, index: RaftIndex) -> None:
        self._applied = index
        if self._whole_at is not None and index >= self._whole_at:
            self.is_open = False

    def _give_up(self, replica: ReplicaCore) -> None:
        if self.is_open:
            self.is_open = False
            logger.warning(
                "%s may have lost records when its machine stopped, and found no leader to ask; it votes again",
                replica.partition,
            )
