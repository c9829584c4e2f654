"""Requests for the controller that come to another broker: they go there as they are, and so does the answer.

The controller answers as if the client had come to it: it gets the client's request, and who the client is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any

from kompat.cluster.calls import Call
from kompat.cluster.controller import PATIENCE
from kompat.errors import ErrorCode, KafkaError
from kompat.types import Buffer, NodeId

if TYPE_CHECKING:
    from kompat.cluster.controller import Controller
    from kompat.server.dispatch import Client, Dispatcher

LONG = 1 << 31  # milliseconds, where a request does not say how long its client waits

_CLIENT_SIZE = Struct(">H")


async def forward(controller: Controller, client: Client, request: Any, frame: memoryview) -> list[Any]:
    """The answer, as it goes out. Raises NOT_CONTROLLER."""
    patience = min(PATIENCE, max(0, getattr(request, "timeout_ms", LONG)) / 1000)
    who = [client.host, client.connection_id, client.local_address, client.principal, client.listener]
    told = json.dumps(who).encode()
    answer = await controller.call(Call.FORWARD, [_CLIENT_SIZE.pack(len(told)), told, frame], patience)
    return [answer]


class Forwarded:
    """Answers what other brokers send on."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def serve(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        from kompat.server.dispatch import Client, Exchange  # only in a cluster

        (size,) = _CLIENT_SIZE.unpack_from(body)
        told = json.loads(bytes(body[_CLIENT_SIZE.size : _CLIENT_SIZE.size + size]))
        host, connection_id, (local_host, local_port), principal, *listener = told
        client = Client(host, connection_id, (local_host, local_port), principal, *listener)
        answer = self._dispatcher.dispatch(client, body[_CLIENT_SIZE.size + size :])
        if isinstance(answer, Exchange):
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            answer.on_settled = lambda _: None if settled.done() else settled.set_result(None)
            if not answer.is_settled:
                await settled
            answer = answer.answer
        if answer is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the controller could not answer")
        return answer
