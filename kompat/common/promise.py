"""The result of a commit, a request or a long poll that has not finished yet.

Lighter than an asyncio.Future: callbacks run where the promise is resolved, in the order in which they were added, without a task and
without another turn of the event loop. A callback may rely on earlier callbacks having run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
U = TypeVar("U")


class Promise(Generic[T]):
    __slots__ = ("_callback", "_others", "_result", "error", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self.error: Exception | None = None  # set if it failed
        self._result: T | None = None
        # Every request makes a promise, and most promises have one callback: a list would be another object.
        self._callback: Callable[[Any], object] | None = None
        self._others: list[Callable[[Any], object]] | None = None

    @staticmethod
    def resolved(result: T) -> Promise[T]:
        promise: Promise[T] = Promise()
        promise.is_done = True
        promise._result = result
        return promise

    @staticmethod
    def failed(error: Exception) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        promise.is_done = True
        promise.error = error
        return promise

    def result(self) -> T:
        """The result of a promise that is done. Raises its error."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # several callers may raise it: its traceback must not grow
        return self._result  # type: ignore[return-value]

    def add_done_callback(self, callback: Callable[[Promise[T]], object]) -> None:
        """Call the callback with the promise when the promise is done: now, if it already is."""
        if self.is_done:
            callback(self)
        elif self._callback is None:
            self._callback = callback
        elif self._others is None:
            self._others = [callback]
        else:
            self._others.append(callback)

    @overload
    def resolve(self: Promise[None]) -> None: ...
    @overload
    def resolve(self, result: T) -> None: ...
    def resolve(self, result: Any = None) -> None:
        self._result = result
        self._finish()

    def fail(self, error: Exception) -> None:
        self.error = error
        self._finish()

    def end(self: Promise[None], error: Exception | None) -> None:
        """Resolve the promise, or let it fail if there is an error."""
        self.error = error
        self._finish()

    def _finish(self) -> None:
        self.is_done = True
        callback, others = self._callback, self._others
        if callback is None:
            return
        self._callback = self._others = None
        try:
            callback(self)
        except Exception as failure:  # noqa: BLE001 - one callback must not starve the others
            self._finish_others(others or (), [failure])
        else:
            if others is not None:
                self._finish_others(others, [])

    def _finish_others(self, callbacks: Iterable[Callable[[Any], object]], failures: list[Exception]) -> None:
        for callback in callbacks:
            try:
                callback(self)
            except Exception as failure:  # noqa: BLE001 - one callback must not starve the others
                failures.append(failure)
        for each in failures:
            _report(each)

    def then(self, make: Callable[[T], U]) -> Promise[U]:
        """The promise of `make(result)`."""
        made: Promise[U] = Promise()

        def done(_: object) -> None:
            try:
                result = make(self.result())
            except Exception as error:  # noqa: BLE001 - the promise fails with it
                made.fail(error)
            else:
                made.resolve(result)

        self.add_done_callback(done)
        return made

    def cancel(self) -> None:
        """The caller does not wait any more. A long poll ends; work that others may wait for continues."""

    def complete_now(self) -> None:
        """Another request waits for this one: a long poll responds with what it has. Other promises ignore it."""

    def __await__(self) -> Generator[Any, None, T]:
        if not self.is_done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.add_done_callback(lambda _: None if waiter.done() else waiter.set_result(None))
            try:
                yield from waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()


def all_of(promises: Iterable[Promise[Any]]) -> Promise[Any]:
    """A promise that is done when all of them are, with the error of the first that failed. A single promise is returned as it is."""
    different = tuple(dict.fromkeys(promises))
    if len(different) == 1:  # true for nearly every batch
        return different[0]
    whole: Promise[None] = Promise()
    left = len(different)

    def one_is_done(_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            whole.end(next((each.error for each in different if each.error is not None), None))

    if not different:
        whole.resolve()
    for each in different:
        each.add_done_callback(one_is_done)
    return whole


def within(promise: Promise[Any], seconds: float) -> Promise[bool]:
    """Whether the promise was done, with a result or an error, before the timeout."""
    outcome: Promise[bool] = Promise()
    if promise.is_done:
        outcome.resolve(True)
        return outcome

    def ended(is_done: bool) -> None:
        if not outcome.is_done:
            timer.cancel()
            outcome.resolve(is_done)

    timer = asyncio.get_running_loop().call_later(seconds, ended, False)
    promise.add_done_callback(lambda _: ended(True))
    return outcome


def _report(failure: Exception) -> None:
    """Report a callback's failure to the event loop: the code that resolves a promise must not fail because of it.

    Without a loop, as in unit tests, the failure is raised.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise failure from None
    loop.call_exception_handler({"message": "a callback of a promise failed", "exception": failure})
