"""One pass over all partitions: leaders, in-sync replicas, sizes, and delayed and prioritized records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kompat.common.meters import OTHER
from kompat.extensions.delay.records import NEVER
from kompat.extensions.interceptor import PartitionInterceptor
from kompat.extensions.priority.lanes import BY_PRIORITY, CLASSES
from kompat.raft.replica.replica import Replica
from kompat.types import NodeId

if TYPE_CHECKING:
    from kompat.handlers.support.services import Services
    from kompat.log.partition import Partition
    from kompat.metrics.page import Page

DEAD_LETTERS = "dlq."


class Walk:
    def __init__(self, page: Page, services: Services) -> None:
        self._page = page
        self._services = services
        self._named = services.meters.topics  # the others are counted together
        self._bytes: Counter[str] = Counter()
        self._dead_letters: Counter[str] = Counter()
        self._lanes: Counter[tuple[str, int]] = Counter()
        self._led = self._under_replicated = self._under_min = 0
        self._waiting = self._undecided = self._parked_bytes = 0
        self._next_due = NEVER
        self._lag: dict[NodeId, int] = {}

    def gather(self) -> Iterator[None]:
        logs = list(self._services.logs.all())
        for log in logs:
            if not log.is_dropped:
                self._look(log)
            yield
        self._add_samples(len(logs))

    def _look(self, log: Partition) -> None:
        name = log.topic if log.topic in self._named else OTHER
        self._bytes[name] += log.size
        if not log.is_led:
            return
        self._led += 1
        if isinstance(log.replica, Replica):
            self._look_at_replicas(log, log.replica)
        if name != OTHER:
            self._page.add("kompat_partition_end_offset", log.high_watermark, log.topic, str(log.index))
        if log.topic.startswith(DEAD_LETTERS):
            self._dead_letters[name] += log.high_watermark - log.log_start_offset
        if isinstance(log.interceptor, PartitionInterceptor):
            self._look_at_waiting(log, log.interceptor, name)

    def _look_at_replicas(self, log: Partition, replica: Replica) -> None:
        in_sync = len(replica.in_sync())
        self._under_replicated += in_sync < len(replica.voters)
        self._under_min += in_sync < log.config.min_insync_replicas  # a log without other replicas has no minimum
        last = replica.log.last
        for peer in replica.group.status().peers:
            node = NodeId(peer.id)
            if node != self._services.node_id:
                self._lag[node] = max(self._lag.get(node, 0), last - peer.matched)

    def _look_at_waiting(self, log: Partition, interceptor: PartitionInterceptor, name: str) -> None:
        parked = interceptor.summary
        self._waiting += parked.waiting
        self._undecided += parked.undecided
        self._parked_bytes += parked.size
        if parked.waiting:
            self._next_due = min(self._next_due, parked.none_before)
        if log.config.kompat_delivery_order == BY_PRIORITY:
            for priority in range(CLASSES):
                self._lanes[name, priority] += interceptor.lanes.summary.lanes[priority].count

    def _add_samples(self, partitions: int) -> None:
        page, late = self._page, self._services.clock.now() - self._next_due
        for name, value in (
            ("kompat_partitions", partitions),
            ("kompat_leader_partitions", self._led),
            ("kompat_under_replicated_partitions", self._under_replicated),
            ("kompat_under_min_isr_partitions", self._under_min),
            ("kompat_delayed_records", self._waiting),
            ("kompat_delayed_undecided_records", self._undecided),
            ("kompat_delayed_bytes", self._parked_bytes),
            ("kompat_delayed_overdue_seconds", max(0, late) / 1000),
        ):
            page.add(name, value)
        for topic, size in self._bytes.items():
            page.add("kompat_topic_log_bytes", size, topic)
        for topic, count in self._dead_letters.items():
            page.add("kompat_dead_letter_records", count, topic)
        for (topic, priority), count in self._lanes.items():
            page.add("kompat_lane_records", count, topic, str(priority))
        for node, lag in self._lag.items():
            page.add("kompat_raft_follower_lag_entries", lag, str(node))
