"""Who leads what, as far as this broker has heard: nothing of it is written down.

A partition's leader is chosen by its replicas, not by the cluster's metadata. Each leader tells all brokers of itself; of two
that lead the same, the one with the higher epoch does. A broker that cannot be reached leads nothing that anybody could use.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from uuid import UUID

from kompat.errors import ProtocolError
from kompat.types import Buffer, LeaderEpoch, LogId, NodeId

_HEAD = Struct(">BI")  # is it all that the sender leads?, how many rows follow
_ROW = Struct(">16sIiBB")  # topic, partition, epoch, does it lead?, how many replicas in sync
_NODE = Struct(">i")


@dataclass(frozen=True, slots=True)
class Led:
    """A partition, as its leader tells of it."""

    leader: NodeId | None  # None: it has stepped down, and nobody has come forward yet
    epoch: LeaderEpoch
    in_sync: tuple[NodeId, ...]  # replicas that have all there is, the leader included


@dataclass(frozen=True, slots=True)
class Announcement:
    rows: tuple[tuple[LogId, Led], ...]  # the leader of each is the sender, or None
    is_whole: bool = False  # all that the sender leads: what it led before and is not here, it leads no more


class Leaders:
    def __init__(self) -> None:
        self._rows: dict[LogId, Led] = {}
        self._down: set[NodeId] = set()
        self._is_outside = False
        self.version = 0  # moves with every change

    def of(self, log: LogId) -> Led | None:
        """None: nobody has told of it. The leader is None where it is not known, or out of reach."""
        led = self._rows.get(log)
        if led is None or self._is_outside or led.leader not in self._down:
            return led
        return Led(None, led.epoch, led.in_sync)

    def led_by(self, node: NodeId) -> Iterator[tuple[LogId, Led]]:
        return ((log, led) for log, led in self._rows.items() if led.leader == node)

    def heard(self, sender: NodeId, told: Announcement) -> list[LogId]:
        """Take note of what a broker tells of itself: the logs of which another is known now."""
        changed = [log for log, led in told.rows if self._take(sender, log, led)]
        if told.is_whole:
            named = {log for log, _ in told.rows}
            for log, led in [each for each in self.led_by(sender) if each[0] not in named]:
                self._rows[log] = Led(None, led.epoch, led.in_sync)
                changed.append(log)
        if changed:
            self.version += 1
        return changed

    def _take(self, sender: NodeId, log: LogId, led: Led) -> bool:
        known = self._rows.get(log)
        # Of itself a broker knows best: one that has lost its disk begins with a lower epoch. Of others' leads it only knows
        # that they are over: an epoch has one leader, so whoever else speaks of it has lost it, or never had it.
        if known is not None and known.leader != sender:
            first_that_counts = known.epoch if known.leader is None else known.epoch + 1
            if led.epoch < first_that_counts:
                return False
        if known == led:
            return False
        self._rows[log] = led
        return True

    def elected(self, log: LogId, leader: NodeId | None, epoch: LeaderEpoch) -> bool:
        """A replica here has learnt of a new leader, before that one has told of itself; whether that was news."""
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
        """The broker is out of reach."""
        if node not in self._down:
            self._down.add(node)
            self.version += 1

    def found(self, node: NodeId) -> None:
        """The broker is there again."""
        if node in self._down:
            self._down.discard(node)
            self.version += 1

    @property
    def is_outside(self) -> bool:
        """This broker is out of reach itself: what it knew last of the others is then the best that it can tell."""
        return self._is_outside

    @is_outside.setter
    def is_outside(self, is_outside: bool) -> None:
        if is_outside != self._is_outside:
            self._is_outside = is_outside
            self.version += 1

    @property
    def down(self) -> Collection[NodeId]:
        return self._down

    def forget(self, logs: Iterable[LogId]) -> None:
        """They are gone for ever."""
        for log in logs:
            self._rows.pop(log, None)


# -- as bytes ----------------------------------------------------------------------------------------------------------
def encode(told: Announcement) -> bytes:
    out = bytearray(_HEAD.pack(told.is_whole, len(told.rows)))
    for log, led in told.rows:
        is_led = led.leader is not None
        out += _ROW.pack(log.topic_id.bytes, log.partition, led.epoch, is_led, len(led.in_sync))
        for node in led.in_sync:
            out += _NODE.pack(node)
    return bytes(out)


def decode(sender: NodeId, body: Buffer) -> Announcement:
    """Raises ProtocolError."""
    view = memoryview(body)
    try:
        is_whole, count = _HEAD.unpack_from(view)
        at = _HEAD.size
        rows = []
        for _ in range(count):
            topic, partition, epoch, is_led, nodes = _ROW.unpack_from(view, at)
            at += _ROW.size
            in_sync = tuple(NodeId(_NODE.unpack_from(view, at + step * _NODE.size)[0]) for step in range(nodes))
            at += nodes * _NODE.size
            led = Led(sender if is_led else None, LeaderEpoch(epoch), in_sync)
            rows.append((LogId(UUID(bytes=topic), partition), led))
    except struct.error as error:
        raise ProtocolError(f"malformed announcement of leaders: {error}") from None
    if at != len(view):
        raise ProtocolError("an announcement of leaders is longer than what it tells")
    return Announcement(tuple(rows), bool(is_whole))
