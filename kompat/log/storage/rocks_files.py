"""Which value-log file a partition's large batches go to.

The segment of a file determines which offsets it may hold: none before the segment's first, and segments do not fall with rising
offsets. The caller's idea of a segment may change when it restarts, so that rule is kept here.
"""

from collections.abc import Set
from typing import TYPE_CHECKING

from kompat.errors import StorageError
from kompat.log.storage.valuelog import ValueFile
from kompat.types import LogId

if TYPE_CHECKING:
    from kompat.log.storage.rocks import RocksStore


class PartitionFiles:
    """The files of one log that are being written to."""

    __slots__ = ("_appending", "_is_first", "_log", "_rewriting", "_store")

    def __init__(self, log: LogId, store: "RocksStore") -> None:
        self._log = log
        self._store = store
        self._appending: ValueFile | None = None
        self._rewriting: dict[int, ValueFile] = {}  # the cleaner's, by segment
        self._is_first = True  # nothing was written since the store was opened

    @property
    def segment(self) -> int | None:
        """The segment that is being appended to."""
        return None if self._appending is None else self._appending.segment

    def for_append(self, segment: int, base_offset: int) -> ValueFile:
        """The file for the batch at `base_offset`, the end of the log."""
        file = self._appending
        if file is not None and segment <= file.segment:
            return file
        if file is not None:
            self._store.garbage.finished.append(file.path)
            file = self._appending = self._new(segment)
            return file
        names = self._names()
        for orphan, _, name in names:
            if orphan > base_offset:  # nothing can point into it: a crash came between its bytes and their keys
                self._store.doom(name)
        names = [name for name in names if name[0] <= base_offset]
        segment = max(segment, names[-1][0] if names else 0)
        if self._is_first and names and names[-1][0] == segment:
            file = self._reopened(*names[-1])
        self._is_first = False
        self._appending = file or self._new(segment)
        return self._appending

    def for_rewrite(self, segment: int) -> ValueFile:
        file = self._rewriting.get(segment)
        if file is None:
            self._is_first = False  # else an append could take the cleaner's file for its own
            file = self._rewriting[segment] = self._new(segment)
        self._store.garbage.rewritten.add(file.path)
        return file

    def leave(self, segment: int, number: int) -> None:
        """The file loses a batch: nothing more is written to it, and it goes when it has lost all."""
        self._store.sweep(self._log.key, segment, number)
        rewriting, appending = self._rewriting.get(segment), self._appending
        if rewriting is not None and rewriting.number == number:
            del self._rewriting[segment]
        if appending is not None and (appending.segment, appending.number) == (segment, number):
            self._appending = None
        self._is_first = False

    def truncate(self, offset: int) -> None:
        """Remove the files of what is truncated. The next append takes a new one: no place in a file is ever used twice."""
        self.remove({segment for segment, _, _ in self._names() if segment >= offset})
        self._appending, self._is_first = None, False

    def remove(self, segments: Set[int]) -> None:
        if not segments:
            return
        for segment, _, name in self._names():
            if segment in segments:
                self._store.doom(name)
        for file in (self._appending, *self._rewriting.values()):
            if file is not None and file.segment in segments:
                self._store.values.unstage(file)
        if self._appending is not None and self._appending.segment in segments:
            self._appending, self._is_first = None, False
        self._rewriting = {segment: file for segment, file in self._rewriting.items() if segment not in segments}

    def remove_before(self, segment: int) -> None:
        self.remove({older for older, _, _ in self._names() if older < segment})

    def remove_all(self) -> None:
        names = self._names()
        self.remove({segment for segment, _, _ in names})
        self._appending, self._is_first = None, False
        if names:
            self._store.doom(str(self._log))

    def discard(self) -> None:
        """The turn was not written."""
        if self._appending is not None and self._appending.is_new:
            self._appending = None
        self._rewriting.clear()

    def _reopened(self, segment: int, number: int, name: str) -> ValueFile:
        try:
            return self._store.values.reopened(segment, number, name)
        except OSError as error:
            raise StorageError(f"the value log of {self._log} cannot be opened: {error}") from error

    def _new(self, segment: int) -> ValueFile:
        highest = max((number for _, number, _ in self._names(with_doomed=True)), default=0)
        return self._store.values.new_file(self._log, segment, highest)

    def _names(self, *, with_doomed: bool = False) -> list[tuple[int, int, str]]:
        try:
            names = self._store.values.names(self._log)
        except OSError as error:
            raise StorageError(f"the value log of {self._log} cannot be listed: {error}") from error
        return names if with_doomed else [name for name in names if not self._store.is_doomed(name[2])]
