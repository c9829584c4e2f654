"""Where partitions end that other brokers have: as their leaders told it some seconds ago."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from kompat.clock import Clock
from kompat.cluster.asking import Asking
from kompat.errors import KafkaError
from kompat.log.manager import Logs
from kompat.types import LogId, NodeId

GOOD_SECONDS = 5.0
WAIT_SECONDS = 1.0  # for brokers that do not answer: others have, and whoever asks does not want to wait
_COMMAND = "end-offsets"

logger = logging.getLogger(__name__)


class EndOffsets:
    def __init__(self, logs: Logs, clock: Clock, asking: Asking | None) -> None:
        """`asking`: None where this broker is alone."""
        self._logs = logs
        self._clock = clock
        self._asking = asking
        self._known: dict[LogId, int] = {}
        self._asked: frozenset[LogId] = frozenset()
        self._asked_at = 0.0
        if asking is not None:
            asking.serve(_COMMAND, self._on_asked)

    @property
    def is_alone(self) -> bool:
        return self._asking is None

    def of(self, place: LogId) -> int | None:
        """None: nobody has told yet."""
        return self._known.get(place)

    async def look_up(self, wanted: Iterable[LogId]) -> None:
        """Ask the leaders of these, each once. What one does not tell stays as it was known."""
        places, now = frozenset(wanted), self._clock.monotonic()
        if self._asking is None or (places <= self._asked and now - self._asked_at < GOOD_SECONDS):
            return
        self._asked, self._asked_at = places, now
        self._known = {place: end for place, end in self._known.items() if place in places}
        by_leader = _by_leader(self._asking, places)
        if by_leader:
            work = [asyncio.ensure_future(self._ask(self._asking, *each)) for each in by_leader.items()]
            _, late = await asyncio.wait(work, timeout=WAIT_SECONDS)
            for each in late:
                each.cancel()

    async def _ask(self, asking: Asking, leader: NodeId, places: Sequence[LogId]) -> None:
        told = [[place.topic_id.hex, place.partition] for place in places]
        try:
            ends = await asking.ask_node(leader, _COMMAND, told)
        except KafkaError as error:
            logger.debug("a broker cannot be asked", extra={"node": leader, "reason": str(error)})
            return
        self._known.update((place, end) for place, end in zip(places, ends, strict=True) if end is not None)

    async def _on_asked(self, told: Sequence[Any]) -> list[int | None]:
        ends: list[int | None] = []
        for topic_id, partition in told:
            log = self._logs.find_by_id(UUID(topic_id), partition)
            ends.append(log.high_watermark if log is not None and log.is_led else None)
        return ends


def _by_leader(asking: Asking, places: Iterable[LogId]) -> dict[NodeId, list[LogId]]:
    found: dict[NodeId, list[LogId]] = defaultdict(list)
    for place in places:
        try:
            found[asking.leader_of(place)].append(place)
        except KafkaError:
            continue  # nobody can tell now
    return found
