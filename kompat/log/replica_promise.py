"""What the appends of a turn wait for, on a leader."""

from kompat.log.commit import Pending
from kompat.types import Offset, RaftIndex


class Promise:
    """What a turn's appends wait for. One for all of them: there may be thousands."""

    __slots__ = ("applied", "committed", "end", "index", "written")

    def __init__(self, written: Pending) -> None:
        self.written = written
        self.committed = Pending()
        self.applied: Pending | None = None  # done when the states that came along are in the store
        self.index = RaftIndex(0)  # the last entry
        self.end = Offset(0)  # of the log, after it
