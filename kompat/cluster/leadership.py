"""The partitions that this broker leads: it learns them from its replicas, and announces them to brokers and watchers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from kompat.cluster.leaders import Led
from kompat.cluster.network import Network
from kompat.log.partition import Partition
from kompat.types import LeaderEpoch, LogId, NodeId

if TYPE_CHECKING:
    from kompat.cluster.ports import Replica

logger = logging.getLogger(__name__)

GRACE = 0.5  # seconds without a leader, until that is announced
MOST_NAMED = 20  # partitions in one line of the log


class Watcher(Protocol):
    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        """This broker leads and serves the partition, in a new epoch."""
        ...

    def following(self, partition: Partition) -> None:
        """This broker does not lead the partition any more. Also called if it did not lead it before."""
        ...


class Leadership:
    def __init__(self, network: Network) -> None:
        self._network = network
        self._replicas: dict[LogId, Replica] = {}
        self._led: dict[LogId, tuple[Partition, LeaderEpoch]] = {}  # and in which epoch
        self._watchers: list[Watcher] = []
        self._alone = (network.me,)  # the in-sync replicas of a partition without other replicas
        self._news: list[str] = []  # for the log: many elections happen together, and one line names all of a turn

    def watch(self, watcher: Watcher) -> None:
        """Call the watcher for what this broker leads from now on, beginning with what it leads already."""
        self._watchers.append(watcher)
        for partition, epoch in self._led.values():
            watcher.leading(partition, epoch)

    # -- what there is ---------------------------------------------------------------------------------------------
    def take(self, partition: Partition, replica: Replica) -> None:
        self._replicas[partition.log_id] = replica

    def own(self, partition: Partition) -> None:
        """This broker has the only replica of the partition, and so leads it."""
        has_had_others = self._replicas.pop(partition.log_id, None) is not None
        if has_had_others or partition.log_id not in self._led:
            self._lead(partition, partition.leader_epoch)

    def drop(self, log_id: LogId) -> None:
        """This broker has no replica any more. Others may lead it."""
        self._replicas.pop(log_id, None)
        led = self._led.pop(log_id, None)
        if led is not None:
            for watcher in self._watchers:
                watcher.following(led[0])

    def replica(self, log_id: LogId) -> Replica | None:
        """None: this broker has no replica, or the only one."""
        return self._replicas.get(log_id)

    def led(self) -> list[Partition]:
        return [partition for partition, _ in self._led.values()]

    def is_led(self, log_id: LogId) -> bool:
        return log_id in self._led

    # -- events of replicas ----------------------------------------------------------------------------------------
    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        self._note(f"leads {partition.topic}-{partition.index} in epoch {epoch}")
        self._lead(partition, epoch)

    def _lead(self, partition: Partition, epoch: LeaderEpoch) -> None:
        self._led[partition.log_id] = partition, epoch
        self._announce(partition, epoch)
        for watcher in self._watchers:
            watcher.leading(partition, epoch)

    def following(self, partition: Partition, leader: NodeId | None, epoch: LeaderEpoch) -> None:
        log_id = partition.log_id
        if self._led.pop(log_id, None) is not None:
            self._note(f"leaves {partition.topic}-{partition.index} to {leader or 'nobody yet'} in epoch {epoch}")
        if leader is not None:
            self._network.elected(log_id, Led(leader, epoch, ()))
        else:
            # Usually another broker leads a moment later. Without a leader in the metadata clients would wait longer, or fail.
            asyncio.get_running_loop().call_later(GRACE, self._nobody_leads, log_id, epoch)
        for watcher in self._watchers:
            watcher.following(partition)

    def _nobody_leads(self, log_id: LogId, epoch: LeaderEpoch) -> None:
        known = self._network.leaders.of(log_id)
        if log_id in self._led or known is None:
            return
        if known.leader == self._network.me:
            self._network.announce(log_id, Led(None, known.epoch, known.in_sync))
        elif known.epoch < epoch:
            self._network.elected(log_id, Led(None, epoch, ()))

    def _note(self, news: str) -> None:
        if not self._news:
            asyncio.get_running_loop().call_soon(self._log_news)
        self._news.append(news)

    def _log_news(self) -> None:
        news, self._news = self._news, []
        more = f", and {len(news) - MOST_NAMED} more" if len(news) > MOST_NAMED else ""
        logger.info("this broker %s%s", ", ".join(news[:MOST_NAMED]), more)

    def members_changed(self, partition: Partition) -> None:
        """Announced with the epoch in which this broker was elected. The partition may already be in a later epoch of another
        leader: announcing that one would make all brokers take this broker for its leader."""
        led, replica = self._led.get(partition.log_id), self._replicas.get(partition.log_id)
        if led is None:
            return
        if replica is None or (
            replica.is_leading and replica.epoch == led[1]
        ):  # else its epoch is about to be announced
            self._announce(partition, led[1])

    def _announce(self, partition: Partition, epoch: LeaderEpoch) -> None:
        replica = self._replicas.get(partition.log_id)
        in_sync = self._alone if replica is None else tuple(replica.in_sync())
        self._network.announce(partition.log_id, Led(self._network.me, epoch, in_sync))
