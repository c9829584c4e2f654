"""Finds the receiver of a request and runs its handler there: on this broker, or by a call over the link to another one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

from kompat.errors import (
    ErrorCode,
    KafkaError,
    PeerBusy,
    PeerError,
    PeerFailed,
    PeerUnavailable,
    StorageError,
)
from kompat.rpc import codec
from kompat.rpc.codec import Answer, Envelope
from kompat.rpc.messages import (
    PASSING,
    BrokerRequest,
    Controller,
    ControllerRequest,
    Coordinator,
    LeaderRequest,
    Moved,
    Receiver,
    Request,
    error_of,
    reply_type,
)
from kompat.rpc.window import Window
from kompat.types import Buffer, LogId, NodeId, Offset

if TYPE_CHECKING:
    from kompat.log.partition import Partition

log = logging.getLogger(__name__)

CALL = 27  # the kind of call on the links
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5  # seconds between two attempts
CATCH_UP = 5.0  # seconds that a broker waits for metadata before it continues without

R = TypeVar("R")
Handler = Callable[..., Awaitable[Any]]


class Directory(Protocol):
    """The leaders, coordinators and controller that this broker knows."""

    @property
    def brokers(self) -> Collection[NodeId]: ...

    def leader(self, log_id: LogId) -> NodeId | None: ...

    def led(self, log_id: LogId) -> Partition | None:
        """None: this broker does not lead it."""
        ...

    async def coordinated(self, coordinator: Coordinator) -> LogId:
        """The partition of a coordinator; its topic is created if it does not exist. Raises KafkaError."""
        ...

    @property
    def controller(self) -> NodeId | None: ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def metadata_end(self) -> Offset:
        """The end of the committed metadata, if this broker is the controller."""
        ...

    @property
    def metadata_read(self) -> Offset:
        """This broker's position in the metadata log."""
        ...

    async def read_metadata(self, end: Offset, seconds: float) -> bool:
        """Wait until this broker has read up to there; returns whether it did so in time."""
        ...


class Transport(Protocol):
    """The part of `raft.peers.Peers` that calls need."""

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109
        """Raises PeerError."""
        ...


class NoTransport:
    """The links of a single broker."""

    async def call(self, to: NodeId, kind: int, body: Sequence[Buffer], timeout: float) -> memoryview:  # noqa: ASYNC109
        raise PeerUnavailable(f"there is no broker {to}", is_sent=False)


class Router:
    def __init__(self, me: NodeId, directory: Directory, transport: Transport | None = None) -> None:
        self.me = me
        self._directory = directory
        self._transport = transport or NoTransport()
        self._handlers: dict[type[Request[Any]], Handler] = {}
        self._names: dict[str, type[Request[Any]]] = {}
        self._windows: dict[tuple[NodeId, bool], Window] = {}

    # -- the registry ----------------------------------------------------------------------------------------------
    @overload
    def serve(self, kind: type[LeaderRequest[R]], handler: Callable[[Partition, Any], Awaitable[R]]) -> None: ...

    @overload
    def serve(
        self, kind: type[BrokerRequest[R]] | type[ControllerRequest[R]], handler: Callable[[Any], Awaitable[R]]
    ) -> None: ...

    def serve(self, kind: type[Request[Any]], handler: Handler) -> None:
        """Handle such requests on this broker from now on."""
        known = self._names.setdefault(kind.__name__, kind)
        if known is not kind or kind in self._handlers:
            raise ValueError(f"{kind.__name__} has a handler already")
        self._handlers[kind] = handler

    # -- calling ---------------------------------------------------------------------------------------------------
    def leader(self, log_id: LogId) -> NodeId | None:
        """For callers that send one request for all partitions of a broker. None: no leader is known."""
        try:
            return self._node(log_id)
        except KafkaError:
            return None

    async def call(
        self,
        to: Receiver,
        request: Request[R],
        *,
        patience: float | None = None,
        answered_within: float | None = None,
    ) -> R:
        """The handler's reply, or the error that it raised. KafkaError with `error_of(to)` if it could not be reached.

        `patience`, `answered_within`: instead of those of the request's class.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (request.patience if patience is None else patience)
        seconds = request.answered_within if answered_within is None else answered_within
        pause = FIRST_PAUSE
        while True:
            try:
                return cast("R", await self._attempt(to, request, seconds))
            except (KafkaError, PeerError) as error:
                if loop.time() >= deadline or not _may_be_sent_again(error, request):
                    final = _final(error, to)
                    if final is error:
                        raise
                    raise final from error
            await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def call_all(self, request: BrokerRequest[R]) -> list[R]:
        """The replies of this broker and of all others that can be reached, in the order of their node ids."""
        nodes = sorted({*self._directory.brokers, self.me})
        answers = await asyncio.gather(*(self.call(node, request) for node in nodes), return_exceptions=True)
        found: list[R] = []
        for node, answer in zip(nodes, answers, strict=True):
            if isinstance(answer, KafkaError) and node != self.me:
                log.debug("a broker is left out", extra={"node": node, "reason": str(answer)})
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append(answer)
        return found

    async def _attempt(self, to: Receiver, request: Request[Any], seconds: float) -> Any:
        log_id = await self._directory.coordinated(to) if isinstance(to, Coordinator) else to
        node = self._node(log_id)
        if node is None:
            raise Moved(to, "nobody is in charge at the moment")
        place = log_id if isinstance(log_id, LogId) else None
        if node != self.me:
            return await self._send(node, to, place, request, seconds)
        reply = await self._run(to, place, request)
        if isinstance(request, ControllerRequest):
            await self._directory.read_metadata(self._directory.metadata_end, CATCH_UP)
        return reply

    def _node(self, to: LogId | Controller | NodeId | Coordinator) -> NodeId | None:
        directory = self._directory
        if isinstance(to, LogId):
            return self.me if directory.led(to) is not None else directory.leader(to)
        if isinstance(to, Controller):
            return self.me if directory.is_controller else directory.controller
        return cast("NodeId", to)

    async def _send(
        self, node: NodeId, to: Receiver, log_id: LogId | None, request: Request[Any], seconds: float
    ) -> Any:
        kind = type(request)
        envelope = Envelope(kind.__name__, codec.raw(request), log_id, self._directory.metadata_read)
        body = codec.encode(envelope)
        window = self._windows.setdefault((node, kind.is_long_poll), Window())
        try:
            async with asyncio.timeout(seconds) as limit, window.room(len(body)):
                left = (limit.when() or 0.0) - asyncio.get_running_loop().time()
                limit.reschedule(None)  # from here on the transport knows whether it was sent
                received = await self._transport.call(node, CALL, [body], left)
        except TimeoutError:
            raise PeerBusy(f"node {node} has too much under way") from None
        answer: Answer = codec.decode(Answer, received)
        if isinstance(request, ControllerRequest):
            await self._directory.read_metadata(Offset(answer.metadata), CATCH_UP)
        if answer.failure is not None:
            raise codec.error_from(answer.failure, to)
        return codec.decode(reply_type(kind), answer.body)

    # -- answering -------------------------------------------------------------------------------------------------
    async def receive(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        """Executes a request of another broker, from the links."""
        envelope: Envelope = codec.decode(Envelope, body)
        kind = self._names.get(envelope.request)
        try:
            if kind is None:
                raise Moved(self.me, f"broker {self.me} does not serve {envelope.request} yet")
            log_id = envelope.log_id
            if log_id is not None and self._directory.led(log_id) is None:
                await self._directory.read_metadata(Offset(envelope.metadata), CATCH_UP)
            reply = await self._run(log_id or self.me, log_id, codec.decode(kind, envelope.body))
        except (KafkaError, StorageError) as error:
            answer = Answer(failure=codec.failure_of(error), metadata=self._metadata_of(kind))
        else:
            answer = Answer(codec.raw(reply), metadata=self._metadata_of(kind))
        return [codec.encode(answer)]

    def _metadata_of(self, kind: type[Request[Any]] | None) -> int:
        is_of_controller = kind is not None and issubclass(kind, ControllerRequest)
        return self._directory.metadata_end if is_of_controller and self._directory.is_controller else 0

    async def _run(self, to: Receiver, log_id: LogId | None, request: Request[Any]) -> Any:
        handler = self._handlers.get(type(request))
        if handler is None:
            raise Moved(to, f"broker {self.me} does not serve {type(request).__name__} yet")
        if isinstance(request, LeaderRequest):
            if log_id is None:
                raise TypeError(f"{type(request).__name__} is for a partition's leader, and not for {to}")
            partition = self._directory.led(log_id)
            if partition is None:
                raise Moved(to, f"broker {self.me} does not lead the partition")
            return await handler(partition, request)
        if isinstance(request, ControllerRequest) and not self._directory.is_controller:
            raise Moved(to, f"broker {self.me} is not the controller")
        return await handler(request)


def _may_be_sent_again(error: KafkaError | PeerError, request: Request[Any]) -> bool:
    if isinstance(error, KafkaError):
        return isinstance(error, Moved) or (request.is_idempotent and error.code in PASSING)
    if isinstance(error, PeerFailed):
        return False
    return request.is_idempotent or (isinstance(error, PeerUnavailable) and not error.is_sent)


def _final(error: KafkaError | PeerError, to: Receiver) -> KafkaError:
    """The caller's error. The caller may be a handler itself, which has begun to execute its request: so it must not be Moved."""
    if isinstance(error, Moved):
        return KafkaError(error.code, error.message)
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, PeerFailed):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return KafkaError(error_of(to), str(error))
