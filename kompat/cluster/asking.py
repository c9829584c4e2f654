"""Has a partition's leader do what only it can, wherever it is: a small command, or a batch for its log.

What is asked of this broker itself is done at once, without going over the wire. Should nobody lead the partition, or its
leader be out of reach, whoever asked is told NOT_LEADER_OR_FOLLOWER: to come again, for soon another one leads.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from struct import Struct
from typing import Any

from kompat.cluster.calls import Call, Calling
from kompat.cluster.leaders import Leaders
from kompat.errors import ErrorCode, KafkaError, PeerError
from kompat.types import Buffer, LogId, NodeId, Offset

SECONDS = 10.0  # for an answer
_OFFSET = Struct(">q")

Command = Callable[[Any], Awaitable[Any]]
Append = Callable[[LogId, memoryview], Awaitable[Offset]]


class Asking:
    def __init__(self, me: NodeId, peers: Calling, leaders: Leaders) -> None:
        self.me = me
        self._peers = peers
        self._leaders = leaders
        self._commands: dict[str, Command] = {}
        self._append: Append | None = None

    def leader_of(self, log_id: LogId) -> NodeId:
        """Raises NOT_LEADER_OR_FOLLOWER where there is none."""
        led = self._leaders.of(log_id)
        if led is None or led.leader is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has no leader at the moment")
        return led.leader

    # -- asking ----------------------------------------------------------------------------------------------------
    async def ask(self, log_id: LogId, command: str, arguments: Any) -> Any:
        """Have the leader of a partition carry out a command: its reply. Raises the KafkaError that it was refused with."""
        return await self.ask_node(self.leader_of(log_id), command, arguments)

    async def ask_node(self, node: NodeId, command: str, arguments: Any) -> Any:
        """Have a certain broker carry out a command, whatever it leads."""
        if node == self.me:
            return await self._commands[command](arguments)
        body = json.dumps([command, arguments], separators=(",", ":")).encode()
        return json.loads(bytes(await self._call(node, Call.ASK, [body])))

    async def append(self, log_id: LogId, batch: Buffer) -> Offset:
        """Have a batch of the broker's own appended, wherever the partition is led: where it lies, once it is committed."""
        leader = self.leader_of(log_id)
        if leader == self.me:
            return await self._appended(log_id, memoryview(bytearray(batch)))
        return Offset(_OFFSET.unpack(await self._call(leader, Call.APPEND, [log_id.key, batch]))[0])

    async def _call(self, node: NodeId, kind: int, body: Sequence[Buffer]) -> memoryview:
        try:
            return await self._peers.call(node, kind, body, SECONDS)
        except PeerError as lost:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(lost)) from lost

    # -- answering -------------------------------------------------------------------------------------------------
    def serve(self, command: str, work: Command) -> None:
        self._commands[command] = work

    def serve_appends(self, append: Append) -> None:
        """`append` raises NOT_LEADER_OR_FOLLOWER where this broker does not lead the partition."""
        self._append = append

    async def on_ask(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        name, arguments = json.loads(bytes(body))
        work = self._commands.get(name)
        if work is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"this broker knows no command {name}")
        return [json.dumps(await work(arguments), separators=(",", ":")).encode()]

    async def on_append(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        log_id = LogId.of_key(bytes(body[:20]))
        return [_OFFSET.pack(await self._appended(log_id, memoryview(bytearray(body[20:]))))]

    async def _appended(self, log_id: LogId, batch: memoryview) -> Offset:
        if self._append is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker is not ready yet")
        return await self._append(log_id, batch)
