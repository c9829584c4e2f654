"""The end offsets of partitions that this broker has no replica of: as their leaders reported them some seconds ago."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from kompat.clock import Clock
from kompat.errors import KafkaError
from kompat.log.manager import Logs
from kompat.rpc.messages import BrokerRequest
from kompat.rpc.router import Router
from kompat.types import LogId, NodeId

GOOD_SECONDS = 5.0
WAIT_SECONDS = 1.0  # for brokers that do not respond: others do, and callers should not wait

logger = logging.getLogger(__name__)


class ListEndOffsets(BrokerRequest[list[int | None]], frozen=True):
    """For each of the partitions its high watermark; None: the broker does not lead it."""

    log_ids: Sequence[LogId]


class EndOffsets:
    def __init__(self, rpc: Router, logs: Logs, clock: Clock) -> None:
        self._rpc = rpc
        self._logs = logs
        self._clock = clock
        self._known: dict[LogId, int] = {}
        self._requested: frozenset[LogId] = frozenset()
        self._requested_at = 0.0
        rpc.serve(ListEndOffsets, self._list)

    def of(self, log_id: LogId) -> int | None:
        """None: it was not reported yet."""
        return self._known.get(log_id)

    async def look_up(self, wanted: Iterable[LogId]) -> None:
        """Request them from the leaders of these, each once. What a leader does not report stays as it was."""
        log_ids, now = frozenset(wanted), self._clock.monotonic()
        if log_ids <= self._requested and now - self._requested_at < GOOD_SECONDS:
            return
        self._requested, self._requested_at = log_ids, now
        self._known = {log_id: end for log_id, end in self._known.items() if log_id in log_ids}
        by_leader: dict[NodeId, list[LogId]] = defaultdict(list)
        for log_id in log_ids:
            leader = self._rpc.leader(log_id)
            if leader is not None:
                by_leader[leader].append(log_id)
        if by_leader:
            work = [asyncio.ensure_future(self._request(*each)) for each in by_leader.items()]
            _, late = await asyncio.wait(work, timeout=WAIT_SECONDS)
            for each in late:
                each.cancel()

    async def _request(self, leader: NodeId, log_ids: Sequence[LogId]) -> None:
        try:
            ends = await self._rpc.call(leader, ListEndOffsets(log_ids))
        except KafkaError as error:
            logger.debug("a broker cannot be asked", extra={"node": leader, "reason": str(error)})
            return
        self._known.update((log_id, end) for log_id, end in zip(log_ids, ends, strict=True) if end is not None)

    async def _list(self, request: ListEndOffsets) -> list[int | None]:
        logs = [self._logs.find_by_id(each.topic_id, each.partition) for each in request.log_ids]
        return [log.high_watermark if log is not None and log.is_led else None for log in logs]
