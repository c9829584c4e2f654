"""Records of one log are appended to another exactly once, whichever broker leads it and whatever is lost on the way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from kompat.clock import ManualClock
from kompat.errors import ErrorCode, KafkaError, PeerUnavailable
from kompat.extensions.dead_letters.forwarder import AFTER_MARKS, KEPT_MS, MARK, ExactlyOnceForwarder, sender_of
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.partition import Partition
from kompat.protocol.records import Record
from kompat.rpc.router import Router
from kompat.types import LogId, NodeId
from tests.log.support import LOG_ID, Log
from tests.rpc.network import ONE, TWO, Broker, Network, run

if TYPE_CHECKING:
    from collections.abc import Mapping

SENDER, OTHER = sender_of("one"), sender_of("another")
RECORDS = {7: Record(0, 1, b"k", b"a"), 9: Record(0, 1, None, b"b", (("h", b"1"),))}


class Leader(Broker):
    """A broker that has the log."""

    log: Log

    def led(self, log_id: LogId) -> Partition | None:
        return self.log.partition if self.network.led_by.get(log_id) == self.me else None


class Two:
    """Broker 2 leads the log that broker 1 sends to."""

    def __init__(self) -> None:
        self.network = Network(ONE, TWO)
        self.log = Log()
        self.network.brokers[TWO] = leader = Leader(TWO, self.network)
        leader.log = self.log
        self.clock = ManualClock()
        self.network.elect(TWO, LOG_ID)
        self.source = Log().partition
        self.forwarders = {node: self._forwarder(node) for node in (ONE, TWO)}

    def _forwarder(self, node: NodeId) -> ExactlyOnceForwarder:
        return ExactlyOnceForwarder(cast("Router", self.network[node]), self.clock, Tracer(self.clock))

    async def send(
        self, records: Mapping[int, Record] = RECORDS, sender: bytes = SENDER, node: NodeId = ONE
    ) -> dict[int, int]:
        work = asyncio.ensure_future(self.forwarders[node].send(self.source, LOG_ID, sender, records))
        return dict(await self._turned(work))

    async def forget(self, *offsets: int) -> None:
        await self._turned(asyncio.ensure_future(self.forwarders[ONE].finished(LOG_ID, SENDER, offsets)))

    async def _turned(self, work: asyncio.Future[Any]) -> Any:
        while not work.done():
            self.log.commit.end_turn()
            await asyncio.sleep(0.001)
        return work.result()

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.log.records()]

    @property
    def marks(self) -> int:
        return len(self.log.partition.store.state_range(MARK, AFTER_MARKS, 10, 1000))


def test_what_comes_again_is_appended_once_until_its_sender_has_finished() -> None:
    async def check() -> None:
        two = Two()
        assert await two.send() == {7: 0, 9: 1}
        assert await two.send(node=TWO) == {}
        assert await two.send(sender=OTHER) == {7: 2, 9: 3}
        await two.forget(7)
        assert await two.send() == {7: 4}
        assert two.values == [b"a", b"b", b"a", b"b", b"a"]
        assert two.log.records()[1].headers == (("h", b"1"),)

    run(check())


def test_a_lost_answer_is_asked_for_again_and_nothing_is_appended_twice() -> None:
    async def check() -> None:
        two = Two()
        two.network.lost = 1
        assert await two.send() == {}
        assert (two.values, two.marks) == ([b"a", b"b"], 2)
        two.network.faults = [PeerUnavailable("no link", is_sent=False)]
        assert await two.send({8: RECORDS[7]}) == {8: 2}

    run(check())


def test_who_cannot_be_reached_for_long_is_told_and_marks_go_with_time() -> None:
    async def check() -> None:
        two = Two()
        await two.send()
        two.network.down = {TWO}
        with pytest.raises(KafkaError) as raised:
            await two.send()
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await two.forget(7, 9)  # nobody hears of it
        two.network.down = set()
        two.clock.advance(KEPT_MS + 1)
        await two.send({1: RECORDS[7]}, OTHER)
        assert two.marks == 1

    run(check())
