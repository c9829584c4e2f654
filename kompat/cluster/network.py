"""The other brokers of the cluster: whom to keep a link with, who is there, and telling all of them what this one leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kompat.cluster import leaders
from kompat.cluster.calls import Call, Calling
from kompat.cluster.leaders import Announcement, Leaders, Led
from kompat.cluster.state import Address, Broker
from kompat.errors import PeerError, ProtocolError
from kompat.types import Buffer, LogId, NodeId

log = logging.getLogger(__name__)

LOST_AFTER = 3.0  # seconds without a link, until clients are told that what the broker led has no leader
UNLISTED_AFTER = (
    6.0  # more seconds, until it is not listed any more: clients drop what they know of a broker, and with it
)
# what they wait for. As with Kafka's broker.session.timeout.ms, one that is restarted is never unlisted.
ANSWER_WITHIN = 5.0
ASK_EVERY = 1.0  # seconds between two questions for a broker that only others reach


class Linking(Calling, Protocol):
    """The part of `raft.peers.Peers` by which links are kept."""

    def connect(self, node: NodeId, host: str, port: int) -> None: ...

    def forget(self, node: NodeId) -> None: ...

    def is_up(self, node: NodeId) -> bool: ...

    def is_gone(self, node: NodeId) -> bool: ...


class Network:
    def __init__(
        self,
        me: NodeId,
        peers: Linking,
        table: Leaders,
        seeds: Mapping[NodeId, Address],
        lost_after: float = LOST_AFTER,
        unlisted_after: float = UNLISTED_AFTER,
    ) -> None:
        """`seeds`: brokers to keep a link with before the cluster's metadata says who there is."""
        self.me = me
        self.leaders = table
        self._peers = peers
        self._lost_after = lost_after
        self._unlisted_after = unlisted_after
        self._known: dict[NodeId, Address] = {}
        self._linked: set[NodeId] = set()  # also brokers that have not registered yet
        self._timers: dict[NodeId, asyncio.TimerHandle] = {}
        self._asking: dict[NodeId, asyncio.Task[None]] = {}
        self._unlisted: set[NodeId] = set()
        self.voters: Callable[[], Sequence[NodeId]] = lambda: ()  # of the metadata: who is in touch with most is inside
        self._untold: dict[LogId, Led] = {}  # to be announced with the turn's end
        self._telling: set[asyncio.Task[None]] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._is_closed = False
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
        """As far as clients need to know: a link that is lost for a moment is no reason to send them away."""
        return node == self.me or self.leaders.is_up(node)

    def is_listed(self, node: NodeId) -> bool:
        """Whether clients are sent to it. A broker that has lost the others sends them away from itself: clients like to ask
        whom they asked before, and would not hear of the new leaders. Unless all others have ended: a client that is told of
        none but those begins from scratch, and librdkafka may get stuck in that."""
        if not self.leaders.is_outside:
            return node not in self._unlisted
        return node != self.me or all(map(self._peers.is_gone, self._known))

    @property
    def stamp(self) -> object:
        """Another one when another broker leads something, or clients are sent to other brokers."""
        return self.leaders.version, self.is_listed(self.me)

    def _look_outside(self) -> None:
        voters = self.voters()
        reached = sum(voter == self.me or self._peers.is_up(voter) for voter in voters)
        self.leaders.is_outside = 2 * reached <= len(voters) and len(voters) > 0

    def linked(self, node: NodeId) -> None:
        """To be told by the links."""
        self._linked.add(node)
        self._found(node)
        self._look_outside()
        self._wake()
        self._tell(node, Announcement(tuple(self.leaders.led_by(self.me)), is_whole=True))

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
        if node not in self._asking:
            task = self._asking[node] = asyncio.ensure_future(self._ask_around(node))
            task.add_done_callback(lambda _: self._asking.pop(node, None))

    async def _ask_around(self, node: NodeId) -> None:
        """Where only the link between two brokers is lost, others still have one, and tell what each leads."""
        while not self._peers.is_up(node):
            told = await self._hear_of(node)
            if self._peers.is_up(node):
                return
            if told is None:
                self._lost(node)
            else:
                self._found(node)
                self.leaders.heard(node, told)
            self._wake()
            await asyncio.sleep(ASK_EVERY)

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

    async def _hear_of(self, node: NodeId) -> Announcement | None:
        question = node.to_bytes(4, "big")
        for other in [known for known in self._known if self._peers.is_up(known)]:
            with contextlib.suppress(PeerError, ProtocolError):
                answer = await self._peers.call(other, Call.REACH, [question], ASK_EVERY)
                if answer:
                    return leaders.decode(node, answer)
        return None

    async def on_reach(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        """Another broker has lost one. An empty answer: this one has, too."""
        node = NodeId(int.from_bytes(body, "big"))
        if not self._peers.is_up(node):
            return ()
        return [leaders.encode(Announcement(tuple(self.leaders.led_by(node)), is_whole=True))]

    async def close(self) -> None:
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        tasks = [*self._telling, *self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiter in self._waiters:
            waiter.cancel()

    # -- leaders ---------------------------------------------------------------------------------------------------
    def announce(self, log_id: LogId, led: Led) -> None:
        """Take note of what this broker leads, or does not any more, and tell the others."""
        if self.leaders.heard(self.me, Announcement(((log_id, led),))):
            if not self._untold:
                asyncio.get_running_loop().call_soon(self._tell_all)
            self._untold[log_id] = led
            self._wake()

    def elected(self, log_id: LogId, led: Led) -> None:
        """Take note of what a replica here has heard of. What this broker leads itself is announced: were it known before,
        that would be no news, and brokers without a replica would never hear of it."""
        if led.leader != self.me and self.leaders.elected(log_id, led.leader, led.epoch):
            self._wake()

    async def on_leaders(self, node: NodeId, body: memoryview) -> Sequence[Buffer]:
        """Another broker tells what it leads."""
        try:
            told = leaders.decode(node, body)
        except ProtocolError as error:
            log.warning("another broker cannot be understood", extra={"peer": node, "reason": error})
            return ()
        if self.leaders.heard(node, told):
            self._wake()
        return ()

    def _tell_all(self) -> None:
        untold, self._untold = self._untold, {}
        told = Announcement(tuple(untold.items()))
        for node in self._linked:
            self._tell(node, told)

    def _tell(self, node: NodeId, told: Announcement) -> None:
        if self._is_closed:
            return
        task = asyncio.ensure_future(self._call(node, leaders.encode(told)))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _call(self, node: NodeId, body: bytes) -> None:
        while True:
            try:
                await self._peers.call(node, Call.LEADERS, [body], ANSWER_WITHIN)
            except PeerError as error:
                if not self._peers.is_up(node):
                    return  # it hears of everything as soon as there is a link again
                log.warning("a broker does not hear who leads what", extra={"peer": node, "reason": error})
                await asyncio.sleep(1)
                body = leaders.encode(Announcement(tuple(self.leaders.led_by(self.me)), is_whole=True))
            else:
                return

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait for something that depends on who leads what and who is there; whether it came true in time."""
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
        """Something else has changed that somebody may wait for."""
        self._look_outside()
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
