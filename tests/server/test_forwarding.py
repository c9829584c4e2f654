"""Requests that another broker answers: they come there as the client sent them, under the client's name."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context
from kompat.handlers.support.forwarded import BrokerFrame, ForwardedClient
from kompat.server.dispatch import Client, Dispatcher
from kompat.server.forwarding import LEAST, ForwardedRequests, forward
from tests.rpc.network import ONE, TWO, Network, run
from tests.server.support import NO_SERVICES, Ask, Tell, api, request

CLIENT = Client("10.0.0.1", "one-two", ("10.0.0.2", 9092), "User:alice", "INSIDE")
SENDER = ForwardedClient("10.0.0.1", "one-two", ("10.0.0.2", 9092), "User:alice", "INSIDE")


class Handling:
    """An API that tells who asks, and may write into what it has got."""

    def __init__(self, network: Network) -> None:
        self.clients: list[tuple[str, str, str]] = []
        self.writable: list[bool] = []
        dispatcher = Dispatcher([api(self.handle)], NO_SERVICES)
        dispatch = dispatcher.dispatch

        def noted(client: Client, frame: memoryview) -> Any:
            self.writable.append(not frame.readonly)
            return dispatch(client, frame)

        dispatcher.dispatch = noted  # type: ignore[method-assign]
        ForwardedRequests(network[TWO], dispatcher)

    async def handle(self, ctx: Context, ask: Ask) -> Tell:
        self.clients.append((ctx.principal, ctx.client_host, ctx.listener))
        return Tell(ask.text)


def carried_out(work: Coroutine[Any, Any, Any]) -> Any:
    return run(work)


def test_the_controller_answers_as_if_the_client_had_come_to_it() -> None:
    network = Network(ONE, TWO)
    network.control(TWO)
    handling = Handling(network)
    frame = memoryview(request(7))[4:]

    [answer] = carried_out(forward(network[ONE], CLIENT, object(), frame))

    assert bytes(answer)[4:8] == (7).to_bytes(4, "big")
    assert handling.clients == [("User:alice", "10.0.0.1", "INSIDE")]


def test_a_frame_may_be_written_to_where_it_is_answered() -> None:
    """A Produce writes offsets into its batches."""
    network = Network(ONE, TWO)
    handling = Handling(network)

    carried_out(network[ONE].call(TWO, BrokerFrame(SENDER, memoryview(request(7))[4:])))

    assert handling.writable == [True]


def test_an_impatient_client_hears_that_there_is_no_controller() -> None:
    network = Network(ONE, TWO)

    class Impatient:
        timeout_ms = 100

    with pytest.raises(KafkaError) as refused:
        run(forward(network[ONE], CLIENT, Impatient(), memoryview(request(7))[4:]), seconds=LEAST)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_what_cannot_be_answered_is_refused() -> None:
    network = Network(ONE, TWO)
    Handling(network)

    with pytest.raises(KafkaError) as refused:
        carried_out(network[ONE].call(TWO, BrokerFrame(SENDER, memoryview(b"no"))))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
