"""The leaders of all partitions, as far as this broker knows: nothing of it is persisted.

A partition's leader is elected by its replicas, not by the controller. Each leader announces itself to all brokers; if two
brokers claim the same partition, the higher epoch is valid. An unreachable broker counts as leader of nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct

from kompat.types import LeaderEpoch, LogId, NodeId


class Led(Struct, frozen=True, array_like=True):
    """The leadership of a partition, as its leader announces it."""

    leader: NodeId | None  # None: it has resigned, and no other leader is known yet
    epoch: LeaderEpoch
    in_sync: tuple[NodeId, ...]  # the in-sync replicas, with the leader


class Announcement(Struct, frozen=True, array_like=True):
    rows: tuple[tuple[LogId, Led], ...]  # the leader of each is the sender, or None
    is_whole: bool = False  # all that the sender leads: other partitions that it led before, it leads no longer


class Leaders:
    def __init__(self) -> None:
        self._rows: dict[LogId, Led] = {}
        self._down: set[NodeId] = set()
        self._is_outside = False
        self.version = 0  # increases with every change

    def of(self, log: LogId) -> Led | None:
        """None: it was never announced. The leader is None if it is not known, or unreachable."""
        led = self._rows.get(log)
        if led is None or self._is_outside or led.leader not in self._down:
            return led
        return Led(None, led.epoch, led.in_sync)

    def led_by(self, node: NodeId) -> Iterator[tuple[LogId, Led]]:
        return ((log, led) for log, led in self._rows.items() if led.leader == node)

    def heard(self, sender: NodeId, announcement: Announcement) -> list[LogId]:
        """Apply an announcement of a broker; returns the logs whose leadership has changed."""
        changed = [log for log, led in announcement.rows if self._take(sender, log, led)]
        if announcement.is_whole:
            named = {log for log, _ in announcement.rows}
            for log, led in [each for each in self.led_by(sender) if each[0] not in named]:
                self._rows[log] = Led(None, led.epoch, led.in_sync)
                changed.append(log)
        if changed:
            self.version += 1
        return changed

    def _take(self, sender: NodeId, log: LogId, led: Led) -> bool:
        known = self._rows.get(log)
        # A broker's announcement of its own leadership is always valid: after it has lost its disk, it starts with a lower epoch.
        # Of other brokers' leadership it only knows that its own has ended: an epoch has one leader.
        if known is not None and known.leader != sender:
            first_that_counts = known.epoch if known.leader is None else known.epoch + 1
            if led.epoch < first_that_counts:
                return False
        if known == led:
            return False
        self._rows[log] = led
        return True

    def elected(self, log: LogId, leader: NodeId | None, epoch: LeaderEpoch) -> bool:
        """A local replica has learnt of a new leader, before that has announced itself; returns whether that is new."""
        known = self._rows.get(log)
        if known is not None:
            is_news = epoch > known.epoch or (epoch == known.epoch and known.leader is None and leader is not None)
            if not is_news:
                return False
        self._rows[log] = Led(leader, epoch, known.in_sync if known is not None else ())
        self.version += 1
        return True

    def is_up(self, node: NodeId) -> bool:
        return node not in self._down

    def lost(self, node: NodeId) -> None:
        """The broker is unreachable."""
        if node not in self._down:
            self._down.add(node)
            self.version += 1

    def found(self, node: NodeId) -> None:
        """The broker is reachable again."""
        if node in self._down:
            self._down.discard(node)
            self.version += 1

    @property
    def is_outside(self) -> bool:
        """This broker cannot reach the others: then its last knowledge about them is the best that it has."""
        return self._is_outside

    @is_outside.setter
    def is_outside(self, is_outside: bool) -> None:
        if is_outside != self._is_outside:
            self._is_outside = is_outside
            self.version += 1

    @property
    def down(self) -> Collection[NodeId]:
        return self._down

    def forget(self, log: LogId) -> None:
        """The log was deleted."""
        self._rows.pop(log, None)
