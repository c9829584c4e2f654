"""Requests that come to one broker and are for another: they go there as they are, and so does the answer.

The other broker answers as if the client had come to it: it gets the client's request, and who the client is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.forwarded import BrokerFrame, ControllerFrame, ForwardedClient, LongPollFrame
from kompat.rpc.messages import CONTROLLER

if TYPE_CHECKING:
    from kompat.rpc.router import Router
    from kompat.server.dispatch import Client, Dispatcher

LONG = 1 << 31  # milliseconds, where a request has no timeout
LEAST = 5.0  # seconds for an answer, however impatient the client: what is under way is not given up lightly


async def forward(rpc: Router, client: Client, request: Any, frame: memoryview) -> list[Any]:
    """The controller's response, as it is sent to the client. Raises NOT_CONTROLLER."""
    patience = min(ControllerFrame.patience, max(0, getattr(request, "timeout_ms", LONG)) / 1000)
    sender = ForwardedClient(client.host, client.connection_id, client.local_address, client.principal, client.listener)
    answer = await rpc.call(
        CONTROLLER, ControllerFrame(sender, frame), patience=patience, answered_within=max(patience, LEAST)
    )
    return [answer]


class ForwardedRequests:
    """Answers what other brokers send on."""

    def __init__(self, rpc: Router, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        for kind in (ControllerFrame, BrokerFrame, LongPollFrame):
            rpc.serve(kind, self._answer)

    async def _answer(self, request: ControllerFrame | BrokerFrame | LongPollFrame) -> memoryview:
        from kompat.server.dispatch import Client, Exchange  # which imports this module

        sender = request.client
        client = Client(sender.host, sender.connection_id, sender.local_address, sender.principal, sender.listener)
        # A copy: offsets are written into the batches of a Produce, and what was received is not to be written to.
        answer = self._dispatcher.dispatch(client, memoryview(bytearray(request.frame)))
        if isinstance(answer, Exchange):
            answer = await answer
        if answer is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the request cannot be answered")
        return memoryview(b"".join(answer))
