"""What may hold records back until somebody wants them: extensions do, from above (kompat/extensions).

A partition that has a demand tells it of consumers that have read all there is. It may then append some of what it holds;
the reader hears of that as of any other growth of the log. One that does not get enough goes on waiting, and so wants what comes
later, too. When nobody waits any more, nothing is released.
"""

from __future__ import annotations

from typing import Protocol

from kompat.log.commit import Pending


class Demand(Protocol):
    """One partition's. None of this raises: what cannot be released now is tried again while somebody waits."""

    counts_shares: bool  # Are fetches of share groups a demand, too?

    def asked(self, reader: object, max_bytes: int) -> bool:
        """A reader is at the log's end, and would take about so many bytes; it waits until it has `left`.

        Whether something is on its way to it: staged, and not committed yet. The reader then watches the partition.
        """
        ...

    def left(self, reader: object) -> None:
        """The reader does not wait any more: it was answered, or is gone. Perhaps it never waited."""
        ...

    def settle(self) -> Pending:
        """Release all that can be: somebody wants to know where the log ends. Done when that is committed."""
        ...
