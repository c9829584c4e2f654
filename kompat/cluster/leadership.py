"""What this broker leads: heard from its replicas, told to the other brokers and to whoever works for a partition's leader."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from kompat.cluster.leaders import Led
from kompat.cluster.network import Network
from kompat.cluster.replicas import Replica
from kompat.log.partition import Partition
from kompat.types import LeaderEpoch, LogId, NodeId

logger = logging.getLogger(__name__)

GRACE = 0.5  # seconds without a leader, until that is told
MOST_NAMED = 20  # partitions in one line of the logs


class Watcher(Protocol):
    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        """This broker leads the partition, and serves it, in a new epoch."""
        ...

    def following(self, partition: Partition) -> None:
        """This broker does not lead the partition any more. Also told where it has not known that it did."""
        ...


class Leadership:
    def __init__(self, network: Network) -> None:
        self._network = network
        self._replicas: dict[LogId, Replica] = {}
        self._led: dict[LogId, tuple[Partition, LeaderEpoch]] = {}  # and in which epoch
        self._watchers: list[Watcher] = []
        self._news: list[str] = []  # for the logs: elections come in crowds, and one line tells of all in a turn

    def watch(self, watcher: Watcher) -> None:
        """Be told what this broker leads from now on, beginning with what it leads already."""
        self._watchers.append(watcher)
        for partition, epoch in self._led.values():
            watcher.leading(partition, epoch)

    # -- what there is ---------------------------------------------------------------------------------------------
    def take(self, partition: Partition, replica: Replica) -> None:
        self._replicas[partition.log_id] = replica

    def own(self, partition: Partition) -> None:
        """A partition that has no other replica is led by this one."""
        self._replicas.pop(partition.log_id, None)
        self.leading(partition, partition.leader_epoch)

    def drop(self, log_id: LogId) -> None:
        """There is no replica here any more. Others may lead it."""
        self._replicas.pop(log_id, None)
        led = self._led.pop(log_id, None)
        if led is not None:
            for watcher in self._watchers:
                watcher.following(led[0])

    def replica(self, log_id: LogId) -> Replica | None:
        """None: it is not here, or has no others beside it."""
        return self._replicas.get(log_id)

    def led(self) -> list[Partition]:
        return [partition for partition, _ in self._led.values()]

    def is_led(self, log_id: LogId) -> bool:
        return log_id in self._led

    # -- what replicas tell ----------------------------------------------------------------------------------------
    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        self._led[partition.log_id] = partition, epoch
        self._note(f"leads {partition.topic}-{partition.index} in epoch {epoch}")
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
            # Mostly another leads a moment later. Clients that are told of nobody meanwhile only wait longer, or give up.
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
        """Told with the epoch that this broker was elected in. The partition may be in a later one already, another broker's:
        to claim that would make everybody take this broker for its leader, for as long as the epoch lasts."""
        led, replica = self._led.get(partition.log_id), self._replicas.get(partition.log_id)
        if led is None:
            return
        if replica is None or (replica.is_leading and replica.epoch == led[1]):  # else it is about to be told
            self._announce(partition, led[1])

    def _announce(self, partition: Partition, epoch: LeaderEpoch) -> None:
        replica = self._replicas.get(partition.log_id)
        in_sync = (self._network.me,) if replica is None else tuple(replica.in_sync())
        self._network.announce(partition.log_id, Led(self._network.me, epoch, in_sync))
