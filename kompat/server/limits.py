"""What one client, and all of them together, may take of the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kompat.config.broker import BrokerConfig
from kompat.config.definitions import ConfigSource
from kompat.config.values import numbers_by_address

MIB = 1 << 20
WARNING_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    request_bytes: int = 100 * MIB  # socket.request.max.bytes: a longer frame closes the connection
    connections: int = 2**31 - 1  # max.connections
    connections_per_ip: int = 2**31 - 1  # max.connections.per.ip
    connections_of_ip: Mapping[str, int] = field(default_factory=dict)  # max.connections.per.ip.overrides
    accept_backlog: int = 1024  # socket.listen.backlog.size
    receive_buffer_bytes: int = -1  # socket.receive.buffer.bytes; -1: the operating system's choice
    send_buffer_bytes: int = -1  # socket.send.buffer.bytes
    idle_seconds: float = 600.0  # connections.max.idle.ms
    # Requests under way: beyond these the broker stops reading from the client, or from all of them.
    connection_bytes: int = 16 * MIB
    connection_requests: int = 64
    # What all connections hold: requests that are half there, wait or are under way, and answers that are not read yet.
    total_bytes: int = 256 * MIB  # queued.max.request.bytes
    # Answers that the client has not taken off the socket: beyond these its requests wait.
    unread_bytes: int = MIB
    # `stall_bytes` of a request, or of its response, have to move in this time, or the connection is closed. A consumer may stay
    # away from its socket between two polls: stock ones for five minutes.
    stall_bytes: int = 16 * 1024
    stall_seconds: float = 30.0
    unread_seconds: float = 330.0
    # While others wait for memory, an eighth of what a connection holds has to move in this time.
    scarce_seconds: float = 2.0
    # Clients that have to authenticate and have not done so: how long they may take, how many there may be, and how many
    # bytes of requests may be under way from all of them.
    login_seconds: float = 60.0
    unauthenticated: int = 1000
    unauthenticated_bytes: int = 32 * MIB


def limits_of(config: BrokerConfig) -> Limits:
    """Kafka's settings of the same meaning. Where Kafka's default suits a thread per socket, only what was set counts."""
    given = {
        field: config[name]
        for field, name in (
            ("accept_backlog", "socket.listen.backlog.size"),
            ("receive_buffer_bytes", "socket.receive.buffer.bytes"),
            ("send_buffer_bytes", "socket.send.buffer.bytes"),
            ("total_bytes", "queued.max.request.bytes"),
        )
        if config.source(name) is not ConfigSource.DEFAULT_CONFIG and config[name] > 0
    }
    idle_ms = config["connections.max.idle.ms"]
    return Limits(
        request_bytes=config["socket.request.max.bytes"],
        connections=config["max.connections"],
        connections_per_ip=config["max.connections.per.ip"],
        connections_of_ip=numbers_by_address(config["max.connections.per.ip.overrides"]),
        idle_seconds=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
        **given,
    )


def _nothing() -> None:
    """There is no listener."""


class Budget:
    """The bytes that all connections hold. A connection that finds it spent waits until half of it is free again.

    A long request is admitted before it arrives, some megabytes at a time. What is still to arrive of all of them has to fit,
    too, or the request waits until those before it have arrived. A request that has begun to arrive goes first, so that it
    completes. Admitted bytes that have not arrived count for other long requests only: they take no memory.
    """

    __slots__ = ("_begun", "_limit", "_queue", "_waiting", "on_short", "on_spent", "outstanding", "used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[object, Callable[[], None]] = {}
        self._queue: dict[object, tuple[int, Callable[[], None]]] = {}  # of long requests
        self._begun: dict[object, tuple[int, Callable[[], None]]] = {}  # of those that have begun to arrive
        self.used = 0
        self.outstanding = 0  # bytes that are still to come of long requests
        self.on_spent = _nothing  # called when the budget has just been spent
        self.on_short = _nothing  # called when a connection begins to wait

    @property
    def is_spent(self) -> bool:
        return self.used >= self._limit

    @property
    def is_short(self) -> bool:
        """Whether a connection waits for memory."""
        return bool(self._waiting or self._queue or self._begun)

    def take(self, size: int) -> None:
        was_spent = self.used >= self._limit
        self.used += size
        if self.used >= self._limit and not was_spent:
            self.on_spent()

    def give_back(self, size: int) -> None:
        self.used -= size
        if self._waiting and self.used <= self._limit // 2:
            # In order of arrival; those that are too late for this round wait again, in the same order.
            waiting, self._waiting = self._waiting, {}
            for wake in waiting.values():
                wake()
        if self._begun or self._queue:
            self._call_next()

    def wait(self, who: object, wake: Callable[[], None]) -> None:
        """Call `wake` once there is room. It must not spend at once, but from a later turn of the event loop."""
        was_short = self.is_short
        self._waiting.setdefault(who, wake)
        if not was_short:
            self.on_short()

    # -- long requests -------------------------------------------------------------------------------------------------
    def expect(self, who: object, size: int, wake: Callable[[], None], *, is_begun: bool = False) -> bool:
        """Whether `size` bytes may arrive; else `wake` is called when it is time to try again, from a later turn of the event loop.

        `is_begun`: other bytes of the same request have arrived."""
        queue = self._begun if is_begun else self._queue
        if self._first(who, queue) is who and self._fits(size):
            queue.pop(who, None)
            self.outstanding += size
            self._call_next()
            return True
        was_short = self.is_short
        queue.setdefault(who, (size, wake))
        if not was_short:
            self.on_short()
        return False

    def _first(self, who: object, queue: dict[object, tuple[int, Callable[[], None]]]) -> object:
        """Of all that wait, where `who` has come to its queue."""
        if queue is self._queue and self._begun:
            return next(iter(self._begun))
        return next(iter(queue), who)

    def is_in_way(self, who: object) -> bool:
        """Whether it waits with a partly received request while such requests take all the room."""
        return self.is_spent and (who in self._queue or who in self._begun)

    def arrived(self, size: int) -> None:
        """These bytes have arrived, or will not any more."""
        self.outstanding -= size
        self._call_next()

    def forget(self, who: object) -> None:
        self._waiting.pop(who, None)
        self._queue.pop(who, None)
        self._begun.pop(who, None)
        self._call_next()

    def _call_next(self) -> None:
        queue = self._begun or self._queue
        if queue:
            size, wake = next(iter(queue.values()))
            if self._fits(size):
                wake()

    def _fits(self, size: int) -> bool:
        """One request is always admitted: it may be larger than the whole budget."""
        return not self.outstanding or self.used + self.outstanding + size <= self._limit


T = TypeVar("T")


class Unauthenticated(Generic[T]):
    """Connections that are not authenticated yet, the ones first that have been silent for longest."""

    __slots__ = ("_last_warned", "_limits", "_present", "budget", "refused")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.refused: Counter[str] = Counter()  # by listener: failed authentications
        self._present: dict[T, None] = {}
        self._last_warned = float("-inf")
        self.budget = Budget(limits.unauthenticated_bytes)

    def come(self, who: T) -> T | None:
        """Add a connection. Returns the one to close, if they are too many: the one that has been silent for longest.

        A login is a few messages, each sent as soon as the one before is answered. So no client that is logging in is closed,
        however many silent ones connect.
        """
        self._present[who] = None
        if len(self._present) <= self._limits.unauthenticated:
            return None
        leaving = next(iter(self._present))
        del self._present[leaving]
        return leaving

    def heard(self, who: T) -> None:
        """It has sent a whole message."""
        if who in self._present:
            del self._present[who]
            self._present[who] = None

    def leave(self, who: T) -> None:
        """The connection is authenticated, or closed."""
        self._present.pop(who, None)

    def may_warn(self, now: float) -> bool:
        """Only now and then: a client that reconnects often must not fill the log."""
        if now - self._last_warned < WARNING_SECONDS:
            return False
        self._last_warned = now
        return True

    def __len__(self) -> int:
        return len(self._present)
