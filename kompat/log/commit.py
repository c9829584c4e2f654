"""Group commit: everything that is staged during one turn of the event loop is written together at its end.

With `fsync=always` an acknowledgement also waits for the disk. One thread syncs; the turns that are written meanwhile
share the next sync, so the disk's latency is paid once for all of them.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from kompat.common.meters import Histogram
from kompat.common.promise import Promise
from kompat.common.repeated import Repeated, times
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.log.storage.incarnation import Incarnations
from kompat.log.storage.store import LogStore

logger = logging.getLogger(__name__)

Fsync = Literal["always", "interval", "never"]


class GroupCommit:
    """Flushes the store at the end of each turn in which `turn()` was called."""

    def __init__(
        self,
        store: LogStore,
        loop: asyncio.AbstractEventLoop,
        *,
        fsync: Fsync = "never",
        interval_ms: int = 1000,
        on_failed: Callable[[], None] = lambda: None,
        syncs: Histogram | None = None,
    ) -> None:
        self._store = store
        self._loop = loop
        self._fsync = fsync
        self._interval = interval_ms / 1000
        self._on_failed = on_failed
        self._syncs = syncs or Histogram()
        self._failures = Repeated()
        self._before_flush: Callable[[], None] | None = None
        self._turn: Promise[None] | None = None
        self._must_sync = fsync == "always"  # of this turn
        self._unsynced: list[Promise[None]] = []  # written, waiting for the next sync
        self._at_disk = 0  # how many wait for the sync that is under way
        self._sync_wanted = False
        self._syncing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sync_due = 0.0  # when the timer ends, in the loop's time
        self._executor = ThreadPoolExecutor(1, "kompat-sync")

    @property
    def may_have_lost(self) -> bool:
        """Whether what was acknowledged before the start may be gone."""
        return self._store.is_restored or (self._store.lost_power and self._fsync != "always")

    @property
    def is_restored(self) -> bool:
        """Whether the data directory is a backup's."""
        return self._store.is_restored

    @property
    def incarnations(self) -> Incarnations:
        return self._store.incarnations

    def run_before_flush(self, work: Callable[[], None]) -> None:
        """Have it called at the end of every turn that is written: replicas have something to add then."""
        self._before_flush = work

    def turn(self) -> Promise[None]:
        """The promise for what is staged in this turn; asking for it makes the turn end with a flush."""
        turn = self._turn
        if turn is None:
            turn = self._turn = Promise()
            self._loop.call_soon(self._flush)
        return turn

    def require_sync(self) -> None:
        """This turn's promise is kept on the disk, whatever the broker's setting: for topics with `flush.messages`."""
        self._must_sync = True

    def sync_within(self, seconds: float) -> None:
        """Force what has been written onto the disk, at the latest after this time."""
        due = self._loop.time() + seconds
        if self._timer is None or due < self._sync_due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(seconds, self._start_sync)
            self._sync_due = due

    async def close(self) -> None:
        """Write and, unless fsync is never, sync what is under way."""
        if self._turn is not None:
            self._flush()
        if self._timer is not None:
            self._timer.cancel()
            self._start_sync()
        while self._syncing is not None:
            await asyncio.wait([self._syncing])
        self._executor.shutdown()

    def _flush(self) -> None:
        if self._before_flush is not None and self._turn is not None:
            self._before_flush()
        turn, self._turn = self._turn, None
        if turn is None:  # close() was faster
            return
        try:
            self._store.flush()
        except StorageError as error:
            self._fail([turn], error)
        except Exception as bug:
            self._fail([turn], bug)  # a bug must not leave requests waiting
            raise
        else:
            self._written(turn)

    def _written(self, turn: Promise[None]) -> None:
        must_sync, self._must_sync = self._must_sync, self._fsync == "always"
        if must_sync or self._waits_for_disk:  # turns are committed in their order
            self._unsynced.append(turn)
            self._start_sync()
            return
        turn.resolve()
        if self._fsync == "interval":
            self.sync_within(self._interval)

    @property
    def _waits_for_disk(self) -> bool:
        return bool(self._unsynced or self._at_disk)

    def _start_sync(self) -> None:
        self._timer = None
        if self._syncing is not None:
            self._sync_wanted = True
            return
        turns, self._unsynced = self._unsynced, []
        self._at_disk = len(turns)
        begun = self._loop.time()
        self._syncing = self._loop.run_in_executor(self._executor, self._store.sync)
        self._syncing.add_done_callback(lambda done: self._synced(turns, done, begun))

    def _synced(self, turns: list[Promise[None]], done: "asyncio.Future[None]", begun: float) -> None:
        self._syncs.took(self._loop.time() - begun)
        error = done.exception()
        try:
            if error is not None:
                # What is staged builds on what is written. Partitions that go back to what the store holds must find
                # it there: else they give its offsets away again, while its turn ends well.
                self._flush()
        finally:
            self._syncing = None
            self._at_disk = 0
            if self._unsynced or self._sync_wanted:
                self._sync_wanted = False
                self._start_sync()
            self._end(turns, error)

    def _end(self, turns: list[Promise[None]], error: BaseException | None) -> None:
        if error is not None:
            self._fail(turns, error)
            return
        for turn in turns:
            turn.resolve()

    def _fail(self, turns: list[Promise[None]], error: BaseException) -> None:
        count = self._failures.count(type(error).__name__, self._loop.time())
        if count:
            logger.error("the log could not be written: %s%s", error, times(count))
        try:
            self._on_failed()
        finally:
            for turn in turns:
                turn.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
