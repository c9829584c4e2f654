"""Asking the controller: from anywhere, while it moves, and when there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kompat.cluster import controller as module
from kompat.cluster.calls import Call
from kompat.cluster.controller import Controller
from kompat.errors import ErrorCode, KafkaError, PeerTimeout, PeerUnavailable
from kompat.types import Buffer, NodeId, Offset

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


class Log:
    """The metadata log of one broker."""

    def __init__(self, net: Net, node: NodeId) -> None:
        self._net = net
        self._node = node
        self.end = Offset(0)
        self.reached: list[Offset] = []

    @property
    def controller(self) -> NodeId | None:
        return self._net.believed.pop(0) if self._net.believed else self._net.leader

    @property
    def is_controller(self) -> bool:
        return self._net.leader == self._node

    async def reach(self, offset: Offset, seconds: float) -> bool:
        self.reached.append(offset)
        return True


class Net:
    def __init__(self, leader: NodeId | None) -> None:
        self.leader = leader
        self.believed: list[NodeId | None] = []  # what brokers think before they know better
        self.errors: list[Exception] = []
        self.controllers: dict[NodeId, Controller] = {}
        self.logs: dict[NodeId, Log] = {}
        for node in (ONE, TWO, THREE):
            log = self.logs[node] = Log(self, node)
            found = self.controllers[node] = Controller(node, self, log)
            found.commands({"double": self.double, "refuse": self.refuse})

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109
        if self.errors:
            raise self.errors.pop(0)
        answer = await self.controllers[to].on_call(kind)(ONE, memoryview(b"".join(body)))
        return memoryview(b"".join(answer))

    async def double(self, number: int) -> int:
        assert self.leader is not None
        self.logs[self.leader].end = Offset(7)
        return 2 * number

    async def refuse(self, _: Any) -> None:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "no")


@pytest.mark.parametrize("asker", [ONE, TWO])
async def test_a_command_is_carried_out_by_the_controller_and_heard_of_by_whoever_asked(asker: NodeId) -> None:
    net = Net(TWO)

    assert await net.controllers[asker].ask("double", 4) == 8
    assert net.logs[asker].reached == [7]


@pytest.mark.parametrize("asker", [ONE, TWO])
async def test_a_refusal_is_told_as_it_is(asker: NodeId) -> None:
    with pytest.raises(KafkaError) as refused:
        await Net(TWO).controllers[asker].ask("refuse")
    assert (refused.value.code, refused.value.message) == (ErrorCode.POLICY_VIOLATION, "no")


async def test_a_broker_that_is_taken_for_the_controller_sends_on() -> None:
    net = Net(TWO)
    net.believed = [None, THREE, ONE]

    assert await net.controllers[ONE].ask("double", 1) == 2


async def test_a_link_that_is_missing_is_waited_for() -> None:
    net = Net(TWO)
    net.errors = [PeerUnavailable("no link", is_sent=False)]

    assert await net.controllers[ONE].ask("double", 1) == 2


@pytest.mark.parametrize("error", [PeerUnavailable("lost", is_sent=True), PeerTimeout("late")])
async def test_what_may_have_been_done_is_not_done_again(error: Exception) -> None:
    net = Net(TWO)
    net.errors = [error]

    with pytest.raises(KafkaError) as refused:
        await net.controllers[ONE].ask("double", 1)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert net.logs[TWO].end == 0


async def test_without_a_controller_whoever_asks_is_told() -> None:
    net = Net(None)
    with pytest.raises(KafkaError) as refused:
        await net.controllers[ONE].call(Call.CONTROL, [b"[]"], seconds=2 * module.RETRY)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_a_command_of_a_newer_version_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        await Net(TWO).controllers[ONE].ask("unheard of")
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
