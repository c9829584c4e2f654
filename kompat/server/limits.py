"""What one client, and all of them together, may take of the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    request_bytes: int = 100 * MIB  # socket.request.max.bytes: a longer frame closes the connection
    connections: int = 2**31 - 1  # max.connections
    accept_backlog: int = 1024  # socket.listen.backlog.size
    receive_buffer_bytes: int = -1  # socket.receive.buffer.bytes; -1: the operating system's choice
    send_buffer_bytes: int = -1  # socket.send.buffer.bytes
    idle_seconds: float = 600.0  # connections.max.idle.ms
    # Requests under way: beyond these the broker stops reading from the client, or from all of them.
    connection_bytes: int = 16 * MIB
    connection_requests: int = 64
    total_bytes: int = 256 * MIB  # queued.max.request.bytes
    # Answers that the client has not taken off the socket: beyond the first, its requests wait; beyond the second,
    # counted over all clients, those who do not read at all are given little time.
    unread_bytes: int = MIB
    total_unread_bytes: int = 256 * MIB
    # So much of a request, or of its answer, has to move in so long, or the connection is closed. A consumer may stay
    # away from its socket between two polls: stock ones for five minutes.
    stall_bytes: int = 16 * 1024
    stall_seconds: float = 30.0
    unread_seconds: float = 330.0
    # Clients that have not said yet who they are, where they have to: how long they may take, how many there may be, and
    # how many bytes of requests may be under way from all of them. Whoever needs long has to give way after a while.
    login_seconds: float = 60.0
    patience_seconds: float = 3.0
    strangers: int = 1000
    strangers_bytes: int = 32 * MIB


class Budget:
    """Bytes of requests under way on all connections. Who finds it spent waits until half of it is free again."""

    __slots__ = ("_limit", "_waiting", "used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[object, Callable[[], None]] = {}
        self.used = 0

    @property
    def is_spent(self) -> bool:
        return self.used >= self._limit

    def take(self, size: int) -> None:
        self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size
        if self._waiting and self.used <= self._limit // 2:
            # In order of arrival; those who come too late for this round ask to wait again, in the same order.
            waiting, self._waiting = self._waiting, {}
            for wake in waiting.values():
                wake()

    def wait(self, who: object, wake: Callable[[], None]) -> None:
        """Call `wake` once there is room. It must not spend at once, but from a later turn of the event loop."""
        self._waiting.setdefault(who, wake)

    def forget(self, who: object) -> None:
        self._waiting.pop(who, None)


T = TypeVar("T")


class Strangers(Generic[T]):
    """Clients that have not said yet who they are, in order of arrival."""

    __slots__ = ("_limits", "_since", "budget", "refused")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.refused: Counter[str] = Counter()  # by listener: those that could not show who they are
        self._since: dict[T, float] = {}
        self.budget = Budget(limits.strangers_bytes)

    def come(self, who: T, now: float) -> T | None:
        """One more; who has to go for it, if they are too many: whoever takes longest, or the newcomer if nobody takes long."""
        self._since[who] = now
        if len(self._since) <= self._limits.strangers:
            return None
        oldest = next(iter(self._since))
        is_slow = now - self._since[oldest] >= self._limits.patience_seconds
        leaving = oldest if is_slow else who
        del self._since[leaving]
        return leaving

    def leave(self, who: T) -> None:
        """It is known, or gone."""
        self._since.pop(who, None)

    def __len__(self) -> int:
        return len(self._since)
