"""Calls and streams on one link, both ways.

The caller always gets a response: what the handler returns, the KafkaError that it raises, or that it failed. A handler is
not interrupted when its caller has gone, because others may wait for the change that it makes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Protocol

from kompat.errors import (
    ErrorCode,
    KafkaError,
    PeerBusy,
    PeerError,
    PeerFailed,
    PeerTimeout,
    PeerUnavailable,
    ProtocolError,
)
from kompat.raft.links.frames import HEAD_SIZE, MORE, PIECE, Head, Kind, Parcel, Status, head_of, parcel, pieces
from kompat.raft.links.outbox import Lane
from kompat.raft.links.streams import Answer, Assembly, Incoming, cost
from kompat.types import Buffer, NodeId

log = logging.getLogger(__name__)

MOST_CALLS = 1024  # of one peer under way here
MOST_STREAMS = 32

_CODE = Struct(">h")

RaftHandler = Callable[[NodeId, bytes, memoryview, list[memoryview]], None]
HeartbeatHandler = Callable[[NodeId, memoryview], None]
CallHandler = Callable[[NodeId, memoryview], Awaitable[Sequence[Buffer]]]
StreamHandler = Callable[[NodeId, bytes, AsyncIterator[memoryview]], Awaitable[bytes]]
Work = Callable[[], Awaitable[Sequence[Buffer]]]


def _ignore(*_: object) -> None:
    pass


@dataclass(slots=True)
class Handlers:
    """What to do with what peers send."""

    on_raft: RaftHandler = _ignore
    on_heartbeats: HeartbeatHandler = _ignore
    on_call: dict[int, CallHandler] = field(default_factory=dict)
    on_stream: dict[int, StreamHandler] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # handlers under way

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Sender(Protocol):
    """The link, as far as it is needed here."""

    def send(self, lane: Lane, parcel: Parcel) -> None: ...

    async def room(self, lane: Lane, size: int) -> None: ...


class Calls:
    def __init__(self, link: Sender, peer: NodeId, handlers: Handlers, longest: int, most_held: int) -> None:
        """`longest`: of a body. `most_held`: bytes of requests that the peer may have under way here."""
        self._link = link
        self._peer = peer
        self._handlers = handlers
        self._longest = longest
        self._most_held = most_held
        self._number = 0
        self._answers: dict[int, Answer] = {}  # that we wait for
        self._requests: dict[int, Assembly | None] = {}  # of the peer, in pieces; None: refused, its pieces are dropped
        self._serving: dict[int, int] = {}  # of the peer, under way, until its handler ends: their sizes
        self._unwanted: set[int] = set()  # of those: the caller no longer waits for the response
        self._held = 0
        self._streams: dict[int, Incoming] = {}
        self._is_ended = False
        self._receivers: dict[int, Callable[[Head, memoryview], None]] = {
            Kind.REQUEST: self._requested,
            Kind.RESPONSE: self._answered,
            Kind.CANCEL: self._cancelled,
            Kind.OPEN: self._opened,
            Kind.CHUNK: self._fed,
            Kind.END: self._finished,
            Kind.ABORT: self._aborted,
            Kind.CREDIT: self._credited,
        }

    # -- our calls and streams ---------------------------------------------------------------------------------------
    async def call(self, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109 - it has an error of its own
        self._check_size(body)
        number, answer = self._begin()
        try:
            async with asyncio.timeout(timeout):
                await self._send(Kind.REQUEST, number, body, code=kind)
                return await answer.wait()
        except TimeoutError:
            raise PeerTimeout(f"node {self._peer} has not answered within {timeout} s") from None
        finally:
            self._forget(number, Kind.CANCEL)

    async def stream(self, kind: int, head: bytes, chunks: AsyncIterator[Sequence[Buffer]]) -> memoryview:
        number, answer = self._begin()
        try:
            await self._push(parcel(Kind.OPEN, number, code=kind))
            await self._send_chunk(number, answer, [head])  # of any size, so it goes as the chunks do
            async for chunk in chunks:
                await answer.credit()
                if answer.is_there:
                    break  # the peer has seen enough, or is gone
                await self._send_chunk(number, answer, chunk)
            else:
                await self._push(parcel(Kind.END, number))
            return await answer.wait()
        except PeerUnavailable:
            if self._is_ended:  # while it waited for room, with some of it sent
                raise PeerUnavailable(f"the link to node {self._peer} was lost", is_sent=True) from None
            raise
        finally:
            self._forget(number, Kind.ABORT)
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()

    async def _send_chunk(self, number: int, answer: Answer, chunk: Sequence[Buffer]) -> None:
        self._check_size(chunk)
        answer.spend(cost(sum(map(len, chunk))))
        for piece, is_more in pieces(chunk):
            await self._push(parcel(Kind.CHUNK, number, piece, flags=MORE if is_more else 0))

    def _begin(self) -> tuple[int, Answer]:
        self._number = self._number % 0xFFFFFFFF + 1
        answer = self._answers[self._number] = Answer(self._longest)
        if self._is_ended:
            answer.complete(PeerUnavailable(f"the link to node {self._peer} is lost", is_sent=False))
        return self._number, answer

    def _forget(self, number: int, word: Kind) -> None:
        answer = self._answers.pop(number)
        if not answer.is_there and not self._is_ended:
            # Behind its pieces, and not ahead of them.
            self._link.send(Lane.BULK, parcel(word, number))

    def _check_size(self, body: Sequence[Buffer]) -> None:
        if sum(map(len, body)) > self._longest:
            raise ValueError(f"a body above the limit of {self._longest} bytes")

    async def _send(self, kind: Kind, number: int, body: Sequence[Buffer], *, code: int) -> None:
        """A small body goes at once; of a large one, piece by piece, as room comes up."""
        if sum(map(len, body)) <= PIECE:
            whole = parcel(kind, number, body, code=code)
            await self._link.room(Lane.CALLS, whole[1])
            self._link.send(Lane.CALLS, whole)
            return
        for piece, is_more in pieces(body):
            await self._push(parcel(kind, number, piece, code=code, flags=MORE if is_more else 0))

    async def _push(self, piece: Parcel) -> None:
        await self._link.room(Lane.BULK, piece[1])
        self._link.send(Lane.BULK, piece)

    # -- calls of the link -------------------------------------------------------------------------------------------
    def receive(self, frame: memoryview) -> None:
        head = head_of(frame)
        receiver = self._receivers.get(head.kind)
        if receiver is not None:  # kinds of a later version are ignored
            receiver(head, frame[HEAD_SIZE:])

    def end(self) -> bool:
        """The link is lost. Returns False where that was known."""
        if self._is_ended:
            return False
        self._is_ended = True
        for answer in self._answers.values():
            answer.complete(PeerUnavailable(f"the link to node {self._peer} was lost before the answer", is_sent=True))
        for stream in self._streams.values():
            stream.fail(PeerUnavailable(f"the link to node {self._peer} was lost", is_sent=True))
        self._requests.clear()
        return True

    def _answered(self, head: Head, body: memoryview) -> None:
        answer = self._answers.get(head.number)
        if answer is None:
            return  # the caller no longer waits
        whole = answer.assembly.add(body, is_last=not head.flags & MORE)
        if whole is not None:
            answer.complete(_outcome(self._peer, head.code, whole))

    def _credited(self, head: Head, body: memoryview) -> None:
        answer = self._answers.get(head.number)
        if answer is not None:
            answer.add_credit(int.from_bytes(body, "big"))

    # -- the peer's calls --------------------------------------------------------------------------------------------
    def _requested(self, head: Head, body: memoryview) -> None:
        number, is_last = self._fresh(head.number), not head.flags & MORE
        assembly = self._requests.setdefault(number, Assembly(self._longest))
        if is_last:
            del self._requests[number]
        if assembly is None:
            return
        self._held += len(body)
        size = assembly.size + len(body)
        if len(self._serving) >= MOST_CALLS or self._held > self._most_held + size:
            self._held -= size
            if not is_last:
                self._requests[number] = None
            self._respond(number, Status.BUSY)
            return
        whole = assembly.add(body, is_last=is_last)
        if whole is None:
            return
        self._serving[number] = len(whole)
        handler = self._handlers.on_call.get(head.code)
        if handler is None:
            self._leave(number)
            self._respond(number, Status.UNKNOWN)
            return
        self._handlers.run(self._serve(number, lambda: handler(self._peer, whole)))

    def _fresh(self, number: int) -> int:
        if number in self._serving or number in self._streams:
            raise ProtocolError("a number is used while it is taken")
        return number

    def _leave(self, number: int) -> None:
        """The request is not under way any more."""
        self._held -= self._serving.pop(number)
        self._unwanted.discard(number)

    def _cancelled(self, head: Head, _: memoryview) -> None:
        assembly = self._requests.pop(head.number, None)
        if assembly is not None:
            self._held -= assembly.size
        if head.number in self._serving:
            self._unwanted.add(head.number)  # its handler goes on, and counts until it ends

    async def _serve(self, number: int, work: Work) -> None:
        status, body = await self._result(work)
        if number not in self._unwanted and not self._is_ended:
            await self._answer(number, status, body)
        self._leave(number)

    async def _result(self, work: Work) -> tuple[Status, Sequence[Buffer]]:
        try:
            body = await work()
            self._check_size(body)
        except KafkaError as error:
            return Status.KAFKA_ERROR, [_CODE.pack(error.code), error.message.encode()]
        except PeerError as error:
            return Status.FAILED, [str(error).encode()]
        except Exception as error:  # the caller must not wait for a bug
            log.exception("a call of another broker failed", extra={"peer": self._peer})
            return Status.FAILED, [f"{type(error).__name__}, see its log".encode()]
        return Status.OK, body

    async def _answer(self, number: int, status: Status, body: Sequence[Buffer]) -> None:
        with suppress(PeerUnavailable):  # the caller knows that the link is lost
            await self._send(Kind.RESPONSE, number, body, code=status)

    def _respond(self, number: int, status: Status) -> None:
        self._link.send(Lane.CALLS, parcel(Kind.RESPONSE, number, code=status))

    # -- the peer's streams ------------------------------------------------------------------------------------------
    def _opened(self, head: Head, _: memoryview) -> None:
        number = self._fresh(head.number)
        handler = self._handlers.on_stream.get(head.code)
        if handler is None or len(self._streams) >= MOST_STREAMS:
            self._respond(number, Status.UNKNOWN if handler is None else Status.BUSY)
            return
        stream = Incoming(self._longest, lambda size: self._give_credit(number, size))
        self._streams[number] = stream
        self._handlers.run(self._serve_stream(number, lambda: self._read(handler, stream)))

    async def _read(self, handler: StreamHandler, stream: Incoming) -> Sequence[Buffer]:
        head = await anext(stream, b"")
        return [await handler(self._peer, bytes(head), stream)]

    def _give_credit(self, number: int, size: int) -> None:
        if not self._is_ended:
            self._link.send(Lane.URGENT, parcel(Kind.CREDIT, number, [size.to_bytes(8, "big")]))

    async def _serve_stream(self, number: int, work: Work) -> None:
        status, body = await self._result(work)
        self._streams.pop(number, None)
        if not self._is_ended:
            await self._answer(number, status, body)

    def _fed(self, head: Head, body: memoryview) -> None:
        stream = self._streams.get(head.number)
        if stream is not None:  # else its handler has seen enough
            stream.feed(body, is_last=not head.flags & MORE)

    def _finished(self, head: Head, _: memoryview) -> None:
        stream = self._streams.get(head.number)
        if stream is not None:
            stream.end()

    def _aborted(self, head: Head, _: memoryview) -> None:
        stream = self._streams.get(head.number)
        if stream is not None:
            stream.fail(PeerUnavailable(f"node {self._peer} gave up its stream", is_sent=True))


def _outcome(peer: NodeId, status: int, body: memoryview) -> memoryview | Exception:
    if status == Status.OK:
        return body
    if status == Status.BUSY:
        return PeerBusy(f"node {peer} has too much under way")
    if status == Status.UNKNOWN:
        return PeerFailed(f"node {peer} does not know what it was asked")
    text = bytes(body[_CODE.size :] if status == Status.KAFKA_ERROR else body).decode(errors="replace")
    if status == Status.KAFKA_ERROR and len(body) >= _CODE.size:
        try:
            return KafkaError(ErrorCode(_CODE.unpack_from(body)[0]), text)
        except ValueError:
            pass  # a code of a later version
    return PeerFailed(f"node {peer}: {text}")
