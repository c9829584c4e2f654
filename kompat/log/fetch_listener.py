"""The hook by which an extension (kompat/extensions) can hold records back until a consumer waits for them.

A partition notifies its fetch listener of consumers that have reached the log's end. The listener may then append some of the
records that it holds back, and the reader is woken as by any other append. A reader that has not got enough keeps waiting, and
gets what is appended later, too. While no reader waits, nothing is released.
"""

from __future__ import annotations

from typing import Protocol

from kompat.common.promise import Promise


class FetchListener(Protocol):
    """The listener of one partition. No method raises: what cannot be released now is tried again while a reader waits."""

    counts_shares: bool  # whether fetches of share groups count as readers

    def reader_waiting(self, reader: object, max_bytes: int) -> bool:
        """A reader is at the log's end and takes about `max_bytes`; it waits until `reader_gone`.

        Returns whether records are on their way to it: staged, and not committed yet. The reader then watches the partition.
        """
        ...

    def reader_gone(self, reader: object) -> None:
        """The reader no longer waits: it was answered, or its client is gone. It may never have waited."""
        ...

    def release_all(self) -> Promise[None]:
        """Release all records that can be, before the log's end offset is reported. Done when they are committed."""
        ...
