"""A partition: append, read, high watermark and last stable offset. The log's semantics, once.

An append is judged, stamped with its offset and staged; it becomes visible (the high watermark passes it) when the
turn's group commit has written it. A partition with one replica commits what is written; one with others, what a majority
of them has (replica.py). If the disk refuses a turn, the partition goes back to what the store holds, and all is as before
that turn.
"""

from kompat.log.partition_copy import Copying
from kompat.log.partition_read import Reading
from kompat.log.partition_upkeep import ALL_COMMITTED, Upkeep
from kompat.log.results import Appended, FoundOffset, Isolation, Origin, ReadResult

__all__ = ["ALL_COMMITTED", "Appended", "FoundOffset", "Isolation", "Origin", "Partition", "ReadResult"]


class Partition(Copying, Reading, Upkeep):
    """All of it: partition_core.py has the state, the others what is done with it."""

    __slots__ = ()
