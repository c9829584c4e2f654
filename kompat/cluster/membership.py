"""Taking part in a cluster: finding the others, founding it or joining it, and what its controller looks after.

A cluster is founded once. Of the brokers that are named at the start, the one with the lowest number does it, when all of
them are there and none of them has metadata already; or the one that has been alone so far, and knows of topics. Whoever
founds it is its only member at first, and takes the others in as they register.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kompat.cluster.calls import Call
from kompat.cluster.state import Address, Broker
from kompat.errors import ConfigError, ErrorCode, KafkaError, PeerError
from kompat.types import Buffer, LeaderEpoch, NodeId

if TYPE_CHECKING:
    from kompat.cluster.member import Member
    from kompat.log.partition import Partition

log = logging.getLogger(__name__)

MOST_VOTERS = 5  # of the metadata: more would only be slower
PAUSE = 0.2  # seconds between two looks
SAY_SO = 5.0  # seconds of waiting, until the operator is told what for
ANSWER_WITHIN = 2.0
MEET = 2.0  # seconds in which others may say that they have metadata already
REMIND = 3.0  # seconds between two reminders to the controller that this broker is there


def choose_voters(now: Collection[NodeId], registered: Collection[NodeId], up: Collection[NodeId]) -> list[NodeId]:
    """Who keeps the metadata: whoever does already and is still registered, and others that are there, up to so many."""
    stay = [node for node in sorted(now) if node in registered]
    others = [node for node in sorted(registered) if node not in stay and node in up]
    return stay + others[: max(0, MOST_VOTERS - len(stay))]


class Formation:
    """How a broker comes to its part of the metadata log."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.heard_controller: NodeId | None = None  # by what others say, before this broker has a part of the log

    async def on_hello(self, _: NodeId, __: memoryview) -> Sequence[Buffer]:
        member = self._member
        state = member.image()
        told = {
            "cluster_id": member.cluster_id,
            "has_metadata": member.has_metadata,
            "controller": member.controller_id(),
            "peers": {n: [b.peer.host, b.peer.port] for n, b in state.brokers.items() if b.peer is not None},
        }
        return [json.dumps(told).encode()]

    async def first_voters(self) -> tuple[NodeId, ...]:
        """Who shall keep a metadata log that has never been kept by more than one: this broker, or nobody yet."""
        member = self._member
        if member.has_metadata:
            if not member.is_kept:
                await self._check_alone()
            return (member.me,)  # counts only where it has been alone so far
        if member.me != min(member.named, default=None):
            return ()
        others = [node for node in member.named if node != member.me]
        async for told in self._all_tell(others):
            if told["has_metadata"]:
                return ()
        return (member.me,)

    async def _check_alone(self) -> None:
        """A broker that has been alone brings its metadata along, so there must not be others. Raises ConfigError."""
        others = [node for node in self._member.named if node != self._member.me]
        await self._member.network.until(lambda: all(map(self._member.peers.is_up, others)), MEET)
        for node, told in zip(others, await asyncio.gather(*map(self._ask, others)), strict=True):
            if told is not None and told["has_metadata"]:
                raise ConfigError(
                    f"broker {node} belongs to a cluster, and this one has topics of its own: start it with an empty data "
                    "directory to have it join, or alone as before"
                )

    async def _all_tell(self, nodes: Sequence[NodeId]) -> Any:
        waited = 0.0
        missing = list(nodes)
        while missing:
            for node in list(missing):
                told = await self._ask(node)
                if told is not None:
                    missing.remove(node)
                    yield told
            if missing:
                await asyncio.sleep(PAUSE)
                waited += PAUSE
                if waited >= SAY_SO:
                    waited = 0.0
                    log.warning("the cluster is founded when all brokers named are there", extra={"missing": missing})

    async def _ask(self, node: NodeId) -> dict[str, Any] | None:
        try:
            answer = await self._member.peers.call(node, Call.HELLO, [], ANSWER_WITHIN)
        except (PeerError, KafkaError):
            return None
        told: dict[str, Any] = json.loads(bytes(answer))
        self._member.network.follow(
            {NodeId(int(n)): Broker(NodeId(int(n)), peer=Address(*at)) for n, at in told["peers"].items()}
        )
        if told["controller"] is not None:
            self.heard_controller = NodeId(told["controller"])
        return told

    async def join(self, broker: Broker) -> None:
        """Register with the controller, however long it takes to find one."""
        waited = 0.0
        while self._member.image().brokers.get(broker.node_id) != broker:
            try:
                if self._member.controller_id() is None:
                    await asyncio.gather(*(self._ask(node) for node in self._member.named))
                await self._member.controller.ask("join", _told(broker))
                await self._member.hear_of(broker)
            except KafkaError as error:
                if error.code not in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                    raise
                waited += PAUSE
                if waited >= SAY_SO or not waited:
                    waited = 0.0
                    log.warning("not registered with the cluster yet", extra={"reason": error})
                await asyncio.sleep(PAUSE)

    async def stay(self) -> None:
        """Register again whenever that was forgotten. Who is not registered may not hear of it, so the controller is asked."""
        while True:
            await asyncio.sleep(REMIND)
            with contextlib.suppress(KafkaError):
                await self._member.controller.ask("join", _told(self._member.broker))


def _told(broker: Broker) -> dict[str, Any]:
    address = {name: [at.host, at.port] for name, at in (("kafka", broker.kafka), ("peer", broker.peer)) if at}
    listeners = {name: [at.host, at.port] for name, at in broker.listeners.items()}
    return {
        "id": broker.node_id,
        "rack": broker.rack,
        "listeners": listeners,
        "directory": broker.directory,
    } | address


def broker_told(told: Mapping[str, Any]) -> Broker:
    kafka, peer = (Address(*told[name]) if name in told else None for name in ("kafka", "peer"))
    listeners = {name: Address(*at) for name, at in told.get("listeners", {}).items()}
    return Broker(NodeId(told["id"]), told["rack"], kafka, peer, listeners, told.get("directory", ""))


class Governing:
    """What the controller looks after, while this broker is it."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._task: asyncio.Task[None] | None = None
        self._kick = asyncio.Event()

    def look(self) -> None:
        """Something may be to be done."""
        self._kick.set()

    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        if partition is self._member.metadata_log:
            self.stop()
            self._task = asyncio.ensure_future(self._govern())

    def following(self, partition: Partition) -> None:
        if partition is self._member.metadata_log:
            self.stop()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _govern(self) -> None:
        while True:
            self._kick.clear()
            try:
                await self._keep_voters()
                await self._member.drain()
            except KafkaError as error:
                log.info("the controller tries again", extra={"reason": error})
            try:
                async with asyncio.timeout(1.0):
                    await self._kick.wait()
            except TimeoutError:
                pass

    async def _keep_voters(self) -> None:
        member = self._member
        replica = member.leadership.replica(member.metadata_log.log_id)
        if replica is None:
            return
        registered = {*member.image().brokers, member.me}
        up = [node for node in registered if node == member.me or member.peers.is_up(node)]
        voters = choose_voters(replica.voters, registered, up)
        learners = [node for node in up if node not in voters]
        if set(voters) != set(replica.voters) or not set(learners) <= set(replica.learners):
            await replica.change_members(voters, learners)
