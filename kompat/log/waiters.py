"""Callbacks for the growth of a partition: of long polls and coordinators."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiters(Generic[T]):
    """Callbacks that are called when something advanced, until they remove themselves."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        self._callbacks: dict[Callable[[T], None], None] = {}  # a set that keeps its order: first come, first served

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, callback: Callable[[T], None]) -> None:
        self._callbacks[callback] = None

    def remove(self, callback: Callable[[T], None]) -> None:
        self._callbacks.pop(callback, None)

    def fire(self, subject: T) -> None:
        # A copy, since most callbacks take themselves off; one that another took off meanwhile is not called.
        for callback in tuple(self._callbacks):
            if callback in self._callbacks:
                callback(subject)
