"""Finds stalled connections: pure arithmetic over counters that connections keep anyway, checked every few seconds.

One sweep over all connections costs less than a timer for each, and nothing in the path of a request.
"""

from __future__ import annotations

from dataclasses import dataclass

from kompat.server.limits import Limits

SHARE = 8  # of what is held, that has to move while others wait for it


@dataclass(frozen=True, slots=True)
class Progress:
    """What a connection has done so far, and what it is waiting for."""

    received: int  # bytes
    frames: int  # whole ones
    sent: int  # bytes that the client's side has taken
    is_mid_frame: bool  # the rest of a request is due, and the broker is reading
    is_unread: bool  # a response is not sent yet
    is_busy: bool  # a request is under way
    is_in_way: bool = False  # the rest of a request is not admitted, and its beginning takes the room of others
    promised: int = 0  # bytes of the request that is due
    unread: int = 0  # bytes of unsent responses


class Gauge:
    """A counter that has to grow by at least some amount in every period, while it is waited for."""

    __slots__ = ("_mark", "_since")

    def __init__(self, now: float, mark: int = 0) -> None:
        self._mark = mark
        self._since = now

    def stood_for(self, is_waiting: bool, count: int, least: int, now: float) -> float:
        if not is_waiting or count - self._mark >= least:
            self._mark = count
            self._since = now
        return now - self._since


class Watch:
    __slots__ = ("_idle", "_incoming", "_limits", "_outgoing", "_scarce")

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._incoming = Gauge(now)
        self._outgoing = Gauge(now)
        self._idle = Gauge(now)
        self._scarce: tuple[Gauge, Gauge] | None = None  # while memory is short: bytes received, and bytes sent

    def verdict(self, progress: Progress, now: float, *, is_memory_short: bool) -> str | None:
        """Why the connection has to be closed, or None."""
        limits = self._limits
        least = limits.stall_bytes
        # A frame that has been completed is progress, however small.
        arrived = progress.received + progress.frames * least
        if self._incoming.stood_for(progress.is_mid_frame, arrived, least, now) >= limits.stall_seconds:
            return "half a request, and no more of it came"
        if self._outgoing.stood_for(progress.is_unread, progress.sent, least, now) >= limits.unread_seconds:
            return "the client does not read its answers"
        is_quiet = not (progress.is_busy or progress.is_unread)
        if self._idle.stood_for(is_quiet, progress.received + progress.sent, 1, now) >= limits.idle_seconds:
            return "idle"
        if is_memory_short:
            return self._in_others_way(progress, now)
        self._scarce = None
        return None

    def _in_others_way(self, progress: Progress, now: float) -> str | None:
        """It holds memory that others wait for, and does not make an effort to give it back."""
        if self._scarce is None:
            self._scarce = Gauge(now, progress.received), Gauge(now, progress.sent)
        incoming, outgoing = self._scarce
        patience = self._limits.scarce_seconds
        least = max(1, progress.promised // SHARE)
        is_due = progress.is_mid_frame or progress.is_in_way
        if incoming.stood_for(is_due, progress.received, least, now) >= patience:
            return "memory is short, and half a request comes too slowly"
        least = max(1, progress.unread // SHARE)
        if outgoing.stood_for(progress.is_unread, progress.sent, least, now) >= patience:
            return "memory is short, and answers are not read"
        return None
