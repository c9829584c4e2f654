"""The other brokers of the cluster: keeps links to them, tracks which are up, and announces what this one leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kompat.cluster.leaders import Announcement, Leaders, Led
from kompat.cluster.messages import AnnounceLeaders, DescribeLeaders
from kompat.cluster.state import Address, Broker
from kompat.errors import KafkaError
from kompat.rpc.router import Router
from kompat.types import LogId, NodeId

if TYPE_CHECKING:
    from kompat.cluster.ports import Linking

log = logging.getLogger(__name__)

LOST_AFTER = 3.0  # seconds without a link, until clients see that the broker's partitions have no leader
# More seconds, until it is not in the metadata any more: clients then drop the broker with the requests that wait for it.
# As with Kafka's broker.session.timeout.ms, a broker that restarts stays in the metadata.
UNLISTED_AFTER = 6.0
PROBE_EVERY = 1.0  # seconds between two requests about a broker that this one cannot reach


class Network:
    def __init__(
        self,
        me: NodeId,
        peers: Linking,
        rpc: Router,
        seeds: Mapping[NodeId, Address],
        voters: Callable[[], Sequence[NodeId]],
        lost_after: float = LOST_AFTER,
        unlisted_after: float = UNLISTED_AFTER,
    ) -> None:
        """`seeds`: brokers to keep a link with before the cluster's metadata names them. `voters`: of the metadata log; a broker
        that reaches a majority of them is inside the cluster."""
        self.me = me
        self.leaders = Leaders()
        self._peers = peers
        self._rpc = rpc
        self._voters = voters
        self._lost_after = lost_after
        self._unlisted_after = unlisted_after
        self._known: dict[NodeId, Address] = {}
        self._linked: set[NodeId] = set()  # also brokers that have not registered yet
        self._timers: dict[NodeId, asyncio.TimerHandle] = {}
        self._probes: dict[NodeId, asyncio.Task[None]] = {}
        self._unlisted: set[NodeId] = set()
        self._unannounced: dict[LogId, Led] = {}  # to be announced at the end of the turn
        self._sending: set[asyncio.Task[None]] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._is_closed = False
        rpc.serve(AnnounceLeaders, self._on_announcement)
        rpc.serve(DescribeLeaders, self._on_describe_leaders)
        for node, address in seeds.items():
            self._connect(node, address)

    # -- links -----------------------------------------------------------------------------------------------------
    def follow(self, brokers: Mapping[NodeId, Broker], gone: Iterable[NodeId] = ()) -> None:
        """Keep links with the brokers that are registered."""
        for node, broker in brokers.items():
            if broker.peer is not None:
                self._connect(node, broker.peer)
        for node in gone:
            self._known.pop(node, None)
            self._peers.forget(node)

    def _connect(self, node: NodeId, address: Address) -> None:
        if node == self.me or self._known.get(node) == address:
            return
        if node not in self._known and not self._peers.is_up(node):
            self._expect(node)
        self._known[node] = address
        self._peers.connect(node, address.host, address.port)

    def is_up(self, node: NodeId) -> bool:
        """Whether clients should use it: a link that is lost for a moment is no reason to move them."""
        return node == self.me or self.leaders.is_up(node)

    def is_listed(self, node: NodeId) -> bool:
        """Whether clients see the broker in the metadata. A broker that has lost the others removes itself: clients prefer the broker
        that they used before, and would not see the new leaders. Unless all others have stopped: a client that gets only
        stopped brokers bootstraps again, and librdkafka may get stuck in that."""
        if not self.leaders.is_outside:
            return node not in self._unlisted
        return node != self.me or all(map(self._peers.is_gone, self._known))

    @property
    def stamp(self) -> object:
        """Changes when a leader changes, or the brokers in clients' metadata do."""
        return self.leaders.version, self.is_listed(self.me)

    def _look_outside(self) -> None:
        voters = self._voters()
        reached = sum(voter == self.me or self._peers.is_up(voter) for voter in voters)
        self.leaders.is_outside = 2 * reached <= len(voters) and len(voters) > 0

    def linked(self, node: NodeId) -> None:
        """Called by the links."""
        self._linked.add(node)
        self._found(node)
        self._look_outside()
        self._wake()
        self._send(node, Announcement(tuple(self.leaders.led_by(self.me)), is_whole=True))

    def unlinked(self, node: NodeId) -> None:
        self._linked.discard(node)
        if not self._is_closed:
            self._look_outside()
            self._expect(node)

    def _expect(self, node: NodeId) -> None:
        if node not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[node] = loop.call_later(self._lost_after, self._given_up, node)

    def _given_up(self, node: NodeId) -> None:
        self._timers.pop(node, None)
        if node not in self._probes:
            task = self._probes[node] = asyncio.ensure_future(self._probe_through_others(node))
            task.add_done_callback(lambda _: self._probes.pop(node, None))

    async def _probe_through_others(self, node: NodeId) -> None:
        """If only the link between two brokers is lost, other brokers still have one, and return what the broker leads."""
        while not self._peers.is_up(node):
            announcement = await self._leads_known_to_others(node)
            if self._peers.is_up(node):
                return
            if announcement is None:
                self._lost(node)
            else:
                self._found(node)
                self.leaders.heard(node, announcement)
            self._wake()
            await asyncio.sleep(PROBE_EVERY)

    def _lost(self, node: NodeId) -> None:
        if self.leaders.is_up(node):
            self.leaders.lost(node)
            self._timers[node] = asyncio.get_running_loop().call_later(self._unlisted_after, self._unlist, node)

    def _unlist(self, node: NodeId) -> None:
        self._timers.pop(node, None)
        self._unlisted.add(node)
        self.leaders.version += 1

    def _found(self, node: NodeId) -> None:
        timer = self._timers.pop(node, None)
        if timer is not None:
            timer.cancel()
        self._unlisted.discard(node)
        self.leaders.found(node)

    async def _leads_known_to_others(self, node: NodeId) -> Announcement | None:
        for other in [known for known in self._known if self._peers.is_up(known)]:
            with contextlib.suppress(KafkaError):
                found = await self._rpc.call(other, DescribeLeaders(node))
                if found is not None:
                    return found
        return None

    async def _on_describe_leaders(self, request: DescribeLeaders) -> Announcement | None:
        if not self._peers.is_up(request.node):
            return None
        return Announcement(tuple(self.leaders.led_by(request.node)), is_whole=True)

    async def close(self) -> None:
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        tasks = [*self._sending, *self._probes.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiter in self._waiters:
            waiter.cancel()

    # -- leaders ---------------------------------------------------------------------------------------------------
    def announce(self, log_id: LogId, led: Led) -> None:
        """Store what this broker leads, or leads no longer, and announce it to the others."""
        if self.leaders.heard(self.me, Announcement(((log_id, led),))):
            if not self._unannounced:
                asyncio.get_running_loop().call_soon(self._announce_all)
            self._unannounced[log_id] = led
            self._wake()

    def elected(self, log_id: LogId, led: Led) -> None:
        """Store a leader that a local replica has learnt. This broker's own leadership comes by `announce`: stored here first, it
        would not count as a change, and brokers without a replica would never get it."""
        if led.leader != self.me and self.leaders.elected(log_id, led.leader, led.epoch):
            self._wake()

    async def _on_announcement(self, request: AnnounceLeaders) -> None:
        if self.leaders.heard(request.sender, request.announcement):
            self._wake()

    def _announce_all(self) -> None:
        unannounced, self._unannounced = self._unannounced, {}
        announcement = Announcement(tuple(unannounced.items()))
        for node in self._linked:
            self._send(node, announcement)

    def _send(self, node: NodeId, announcement: Announcement) -> None:
        if self._is_closed:
            return
        task = asyncio.ensure_future(self._call(node, announcement))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _call(self, node: NodeId, news: Announcement) -> None:
        while True:
            try:
                await self._rpc.call(node, AnnounceLeaders(self.me, news))
            except KafkaError as error:
                if not self._peers.is_up(node):
                    return  # with the next link it gets everything
                log.warning("a broker does not hear who leads what", extra={"peer": node, "reason": error})
                await asyncio.sleep(1)
                news = Announcement(tuple(self.leaders.led_by(self.me)), is_whole=True)
            else:
                return

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition on leaders and brokers; returns whether it became true in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not holds():
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.append(waiter)
            try:
                await asyncio.wait_for(waiter, max(0, deadline - loop.time()))
            except TimeoutError:
                return holds()
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return True

    def look(self) -> None:
        """Something has changed that `until` may wait for."""
        self._look_outside()
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
