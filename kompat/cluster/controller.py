"""The controller, wherever it is: the broker that leads the metadata log decides for the cluster, the others ask it.

Whoever asked is answered when this broker has heard of the outcome too: a client finds the topic that it has just made.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Protocol

from kompat.cluster.calls import Call, Calling
from kompat.errors import ErrorCode, KafkaError, PeerError, PeerUnavailable
from kompat.types import Buffer, NodeId, Offset

PATIENCE = 10.0  # seconds: how long the cluster may be without a controller before whoever asks is told
RETRY = 0.05
LEAST = 5.0  # seconds for an answer, however impatient the client: what is under way is not given up lightly
CATCH_UP = 5.0  # seconds: how long a broker may be behind the controller before an answer is given all the same

_REACHED = Struct(">q")  # stands before an answer: where the metadata log ended then

Handler = Callable[[NodeId, memoryview], Awaitable[Sequence[Buffer]]]
Command = Callable[[Any], Awaitable[Any]]


class Metadata(Protocol):
    """The metadata log, as this broker has it."""

    @property
    def controller(self) -> NodeId | None:
        """Its leader, if that is known."""
        ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def end(self) -> Offset:
        """Of what is committed."""
        ...

    async def reach(self, offset: Offset, seconds: float) -> bool: ...


class Controller:
    def __init__(self, me: NodeId, peers: Calling, metadata: Metadata) -> None:
        self._me = me
        self._peers = peers
        self._metadata = metadata
        self._handlers: dict[int, Handler] = {Call.CONTROL: self._command}
        self._commands: dict[str, Command] = {}

    @property
    def is_here(self) -> bool:
        return self._metadata.is_controller

    # -- asking ----------------------------------------------------------------------------------------------------
    async def ask(self, command: str, arguments: Any = None) -> Any:
        """Have the controller carry out a command: its reply. Raises the KafkaError that it was refused with."""
        body = json.dumps([command, arguments], separators=(",", ":")).encode()
        return json.loads(bytes(await self.call(Call.CONTROL, [body])))

    async def call(self, kind: int, body: Sequence[Buffer], seconds: float = PATIENCE) -> memoryview:
        """What the controller answers. Raises NOT_CONTROLLER where there is none for so long, or where the answer was lost."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            try:
                return await self._once(kind, body, max(RETRY, deadline - loop.time()))
            except PeerUnavailable as lost:
                if lost.is_sent or loop.time() > deadline:
                    raise KafkaError(ErrorCode.NOT_CONTROLLER, str(lost)) from lost
            except PeerError as failed:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, str(failed)) from failed
            except KafkaError as refused:
                if refused.code is not ErrorCode.NOT_CONTROLLER or loop.time() > deadline:
                    raise
            await asyncio.sleep(RETRY)

    async def _once(self, kind: int, body: Sequence[Buffer], seconds: float) -> memoryview:
        metadata = self._metadata
        controller = self._me if metadata.is_controller else metadata.controller
        if controller is None or (controller == self._me and not metadata.is_controller):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The cluster has no controller at the moment.")
        if controller == self._me:
            answer = memoryview(b"".join(await self._served(kind, self._me, memoryview(b"".join(body)))))
        else:
            answer = await self._peers.call(controller, kind, body, max(seconds, LEAST))
        reached = Offset(_REACHED.unpack_from(answer)[0])
        await metadata.reach(reached, CATCH_UP)
        return answer[_REACHED.size :]

    # -- answering -------------------------------------------------------------------------------------------------
    def on_call(self, kind: int) -> Handler:
        """To be called when another broker asks."""

        async def served(node: NodeId, body: memoryview) -> Sequence[Buffer]:
            return await self._served(kind, node, body)

        return served

    def serve(self, kind: int, handler: Handler) -> None:
        self._handlers[kind] = handler

    def commands(self, commands: Mapping[str, Command]) -> None:
        self._commands.update(commands)

    async def _served(self, kind: int, node: NodeId, body: memoryview) -> Sequence[Buffer]:
        if not self._metadata.is_controller:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        answer = await self._handlers[kind](node, body)
        return [_REACHED.pack(self._metadata.end), *answer]

    async def _command(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        name, arguments = json.loads(bytes(body))
        command = self._commands.get(name)
        if command is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"this broker knows no command {name}")
        return [json.dumps(await command(arguments), separators=(",", ":")).encode()]
