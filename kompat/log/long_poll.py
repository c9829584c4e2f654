"""A request that waits until there is enough for a response, its time is up, or its client is gone (Kafka: DelayedOperation).

A subclass decides what is read, when it is enough and how the response is made: `handlers/fetch.py`, `share/fetching.py`,
`extensions/queues/leader.py`. This class has what they share: the timer, the watched partitions, fetch listeners that hold
records back, reads in a worker thread, work in slices, and that the request completes exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from time import perf_counter
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from kompat.common.promise import Promise
from kompat.common.slices import SLICE_SECONDS
from kompat.errors import KafkaError
from kompat.log.fetch_listener import FetchListener

T = TypeVar("T")

# An attempt to complete: it yields a read that has to come from the store, or None where others may have a turn.
Steps: TypeAlias = Generator[Callable[[], Awaitable[Any]] | None, Any, None]


class Watched(Protocol):
    """Something that grows or changes: a partition, a share partition."""

    def watch(self, callback: Callable[[Any], None], /) -> None: ...

    def unwatch(self, callback: Callable[[Any], None], /) -> None: ...


class LongPoll(Promise[T]):
    __slots__ = (
        "_is_looking",
        "_listeners",
        "_max_wait_ms",
        "_steps",
        "_task",
        "_timer",
        "_was_woken",
        "_watched",
        "is_expired",
    )

    def __init__(self, max_wait_ms: int) -> None:
        # As a promise begins. Every Fetch has one of these, and its base's method would be one more call.
        self.is_done = False
        self.error = self._result = self._callback = self._others = None
        self.is_expired = max_wait_ms <= 0  # an attempt that begins has to complete it, with whatever there is
        self._max_wait_ms = max_wait_ms
        self._timer: asyncio.TimerHandle | None = None
        self._watched: dict[Watched, None] = {}
        self._listeners: list[FetchListener] = []  # that were notified of this poll
        self._task: asyncio.Task[None] | None = None  # an attempt that takes several turns
        self._steps: Steps | None = None  # of that
        self._is_looking = False  # an attempt has this turn
        self._was_woken = False  # between two turns of an attempt

    # -- the strategy ----------------------------------------------------------------------------------------------
    def try_complete(self) -> Steps | None:
        """Resolve the promise if there is enough, or if `is_expired`; else watch what may bring more. None: that is done.

        What wakes the poll while this has its turn does not count: it has looked itself. Between two steps it does.
        """
        raise NotImplementedError

    def on_failure(self, error: Exception) -> None:
        """An attempt has failed: the client must not be left waiting."""
        self.fail(error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    # -- what it waits for -----------------------------------------------------------------------------------------
    def watch(self, subject: Watched) -> None:
        if subject not in self._watched:
            self._watched[subject] = None
            subject.watch(self.changed)

    def unwatch(self, subject: Watched) -> None:
        if subject in self._watched:
            del self._watched[subject]
            subject.unwatch(self.changed)

    def notify(self, listener: FetchListener, max_bytes: int) -> bool:
        """Notify a listener that this reader is at the log's end. Returns whether records are on their way."""
        if listener not in self._listeners:
            self._listeners.append(listener)
        return listener.reader_waiting(self, max_bytes)

    def has_notified(self, listener: FetchListener) -> bool:
        return listener in self._listeners

    # -- what happens to it ----------------------------------------------------------------------------------------
    def start(self) -> Self:
        self._try()
        return self

    def changed(self, _: Any) -> None:
        """Something that is watched has changed."""
        self._wake()

    def complete_now(self) -> None:
        self.is_expired = True
        self._wake()

    def cancel(self) -> None:
        self.is_done = True
        self._stop_waiting()
        if self._task is not None:
            self._task.cancel()
            if self._steps is not None and not self._is_looking:
                self._steps.close()  # now: a task that has not begun would keep them, and what they hold

    def _wake(self) -> None:
        if self.is_done or self._is_looking:
            return
        if self._task is not None:
            self._was_woken = True
        else:
            self._try()

    def _try(self) -> None:
        self._is_looking = True
        try:
            steps = self.try_complete()
            if steps is not None:
                needed = _until_pause(steps, steps.__next__)
                if self.is_done:  # it was cancelled meanwhile
                    steps.close()
                    return
                self._steps = steps
                self._task = self.spawn(self._go_on(steps, needed))
                return
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001 - the request fails with it
            self._give_up(error)
        finally:
            self._is_looking = False
        if not self.is_done:
            self._wait()

    async def _go_on(self, steps: Steps, needed: Callable[[], Awaitable[Any]] | None) -> None:
        """The rest of an attempt that cannot be made in one turn."""
        failure: Exception | None = None
        try:
            while True:
                try:
                    resume = partial(steps.send, await (needed() if needed is not None else asyncio.sleep(0)))
                except KafkaError as error:
                    resume = partial(steps.throw, error)
                self._is_looking = True
                try:
                    needed = _until_pause(steps, resume)
                finally:
                    self._is_looking = False
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001 - the request fails with it
            failure = error
        finally:
            steps.close()
            self._task = self._steps = None
        if failure is not None:
            self._give_up(failure)
        self._wait()

    def _wait(self) -> None:
        """After an attempt, unless that has completed it: look again if something has happened meanwhile."""
        if self.is_done:
            return
        if self._was_woken or self.is_expired:
            self._was_woken = False
            self._try()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._max_wait_ms / 1000, self.complete_now)

    def _give_up(self, error: Exception) -> None:
        if self.is_done:
            raise error  # the request is answered already
        self.on_failure(error)

    def _finish(self) -> None:
        self.is_done = True
        if self._watched or self._listeners or self._timer is not None:  # most are answered at once
            self._stop_waiting()
        super()._finish()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for subject in self._watched:
            subject.unwatch(self.changed)
        for listener in self._listeners:
            listener.reader_gone(self)
        self._watched.clear()
        self._listeners.clear()


def _until_pause(steps: Steps, resume: Callable[[], Callable[[], Awaitable[Any]] | None]) -> Any:
    """Go on until something has to be read from the store, or the slice is over. Raises StopIteration at the end."""
    ends = perf_counter() + SLICE_SECONDS
    needed = resume()
    while needed is None and perf_counter() < ends:
        needed = next(steps)
    return needed
