"""From a frame to an answer: find the API, check the version, decode, handle, encode; whatever breaks is answered.

An answer is a list of buffers to send, length prefix included; an empty list where the client expects none; or None
where nothing sensible can be said and the connection has to be closed, which the client notices at once.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from kompat.errors import ErrorCode, KafkaError, ProtocolError, StorageError
from kompat.handlers.base import Api, Context
from kompat.handlers.later import Later
from kompat.meters import LATENCIES, ApiMeter, Meters
from kompat.protocol.codec import (
    RequestHeader,
    decode_request,
    decode_request_header,
    encode_response,
    frame_response,
    response_header_size,
)
from kompat.protocol.messages import classes
from kompat.server.answers import LONGEST_QUESTION, Answers
from kompat.server.error_codes import COUNTERS, counter_of
from kompat.server.forwarding import forward
from kompat.server.long_requests import LONG_FRAME, answered, decoded, handled, silent
from kompat.server.throttling import Bill, passed_on
from kompat.watchdog import WARN_SECONDS, warn, watched

if TYPE_CHECKING:
    from kompat.cluster.controller import Controller
    from kompat.handlers.sasl_session import SaslSession
    from kompat.handlers.services import Services

log = logging.getLogger(__name__)

Answer = list[Any] | None

API_VERSIONS = 18
LOGINS = (17, 36)  # of somebody who is not known yet, and so has no quota
_BARE_ERROR = struct.Struct(">iih")  # length, correlation id, error code


@dataclass(slots=True)
class Client:
    """Who is at the other end of a connection."""

    host: str
    connection_id: str
    local_address: tuple[str, int]
    principal: str = "User:ANONYMOUS"
    listener: str = ""  # the name of the one that it came by
    sasl: SaslSession | None = None  # where it has to say who it is
    mute: Callable[[float], None] | None = None  # begin nothing more of what it sends, for so many seconds


class Exchange:
    """A request under way, until its answer is there."""

    __slots__ = (
        "_awaited",
        "answer",
        "api",
        "begun",
        "bill",
        "client",
        "frame_size",
        "has_taken_place",
        "header",
        "is_encoded",
        "is_forwarded",
        "is_settled",
        "meter",
        "on_settled",
        "request",
        "size",
    )

    def __init__(
        self, client: Client, header: RequestHeader, api: Api[Any, Any], size: int, meter: ApiMeter, begun: float
    ) -> None:
        self.client = client
        self.header = header
        self.api = api
        self.size = self.frame_size = size  # in bytes, of what it keeps in memory, and of its frame
        self.meter = meter
        self.begun = begun
        self.bill: Bill | None = None  # where quotas count
        self.request: Any = None  # until it has been decoded
        self.answer: Answer = None
        self.has_taken_place = (
            True  # a handler that returns no coroutine has done what it does, and waits for the outcome only
        )
        self.is_settled = False
        self.is_forwarded = False  # another broker encodes its answer
        self.is_encoded = False  # it waits for an answer that is encoded already
        self.on_settled: Callable[[Exchange], None] | None = None

    def wait_for(self, awaited: Any) -> None:
        """Settle when `awaited` is done. A Later calls back as it is done; only a coroutine costs a task."""
        if hasattr(awaited, "add_done_callback"):
            self._awaited = awaited
            awaited.add_done_callback(self._settle)
        else:
            timed = awaited if self.bill is None else self.bill.timed(awaited)
            self._awaited = asyncio.get_running_loop().create_task(self._carried_out(timed))
            self.has_taken_place = False

    async def _carried_out(self, work: Any) -> None:
        """Settle as soon as it is done: what is to be called back by a task has to wait for another turn of the event loop."""
        outcome: Later[Any] = Later()
        try:
            outcome.set_result(await watched(work, self.held))
        except (Exception, asyncio.CancelledError) as error:
            outcome.set_exception(error)
        self._settle(outcome)

    def held(self, seconds: float) -> None:
        """It has held the event loop for so long, and nobody else had a turn."""
        self.meter.held(seconds)
        if seconds > WARN_SECONDS:
            warn(self.api.name, seconds)

    def abandon(self, *, is_final: bool) -> None:
        """The client is gone, and nobody waits for the answer any more.

        A long poll ends. A coroutine may be in the middle of a change, and others may wait for what it waits for: it
        goes on, unless the broker is about to end too.
        """
        self.on_settled = None
        is_interruptible = is_final or not isinstance(self._awaited, asyncio.Task)
        if not self.is_settled and is_interruptible and hasattr(self._awaited, "cancel"):
            self._awaited.cancel()

    def hurry(self) -> None:
        """The broker is about to stop, or another request waits for this one: what waits for something to happen answers without it."""
        if not self.is_settled and hasattr(self._awaited, "hurry"):
            self._awaited.hurry()

    def _settle(self, awaited: Any) -> None:
        begun = perf_counter()
        if self.bill is not None:
            self.bill.go_on()
        try:
            result = awaited.result()
            if self.is_encoded:
                self.answer = result
            elif result is None:
                self.answer = silent(self)
            else:
                self.answer = passed_on(self, result) if self.is_forwarded else _encode(self, result)
        except asyncio.CancelledError:
            self.answer = None
        except Exception as error:
            self.answer = _failed(self, error)
        self.is_settled = True
        now = perf_counter()
        self.held(now - begun)
        self.count(self.answer, now)
        if self.on_settled is not None:
            self.on_settled(self)

    def count(self, answer: Answer, now: float) -> None:
        """It is answered."""
        meter = self.meter
        meter.seconds += (seconds := now - self.begun)  # `took`, without the call
        meter.buckets[bisect_left(LATENCIES, seconds)] += 1
        if answer:
            meter.bytes_out += sum(map(len, answer))

    def facts(self) -> dict[str, object]:
        """For the logs."""
        return {
            "api": self.api.name,
            "version": self.header.api_version,
            "client": self.client.connection_id,
            "client_id": self.header.client_id,
            "correlation_id": self.header.correlation_id,
        }


class Dispatcher:
    def __init__(
        self,
        apis: Iterable[Api[Any, Any]],
        services: Services,
        controller: Controller | None = None,
        meters: Meters | None = None,
    ) -> None:
        """`controller`: of the cluster, where there are several brokers."""
        counted = meters or Meters()
        self._services = services
        self._quotas = services.quotas
        self._controller = controller
        self._answers: dict[int, Answers] = {}
        self._meters: dict[int, ApiMeter] = {}
        self._apis: dict[int, Api[Any, Any]] = {}
        for api in apis:
            if self._apis.setdefault(api.key, api) is not api:
                raise ValueError(f"two handlers for API key {api.key}: {self._apis[api.key].name} and {api.name}")
            self._meters[api.key] = counted.api(api.key, api.name)

    def dispatch(self, client: Client, frame: memoryview) -> Answer | Exchange:
        begun = perf_counter()
        try:
            header, position = decode_request_header(frame)
        except ProtocolError as error:
            log.warning("closing the connection", extra={"client": client.connection_id, "reason": error})
            return None
        api = self._apis.get(header.api_key)
        if api is None:
            return _unknown(client, header)
        meter = self._meters[header.api_key]
        meter.bytes_in += len(frame)
        exchange = Exchange(client, header, api, len(frame), meter, begun)
        if self._quotas.is_enabled and header.api_key not in LOGINS:
            exchange.bill = Bill(self._quotas, begun)
        try:
            answer = self._begin(exchange, frame, position)
        except Exception as error:
            answer = _failed(exchange, error)
        now = perf_counter()
        exchange.held(now - begun)
        if not isinstance(answer, Exchange):
            exchange.count(answer, now)
        return answer

    def _begin(self, exchange: Exchange, frame: memoryview, position: int) -> Answer | Exchange:
        api, header = exchange.api, exchange.header
        if not api.versions.low <= header.api_version <= api.versions.high:
            return _unsupported(exchange, frame[position:])
        if api.stamp is not None and len(frame) <= LONGEST_QUESTION and exchange.bill is None:
            return self._remembered(exchange, api.stamp(self._services), frame, position)
        return self._worked_out(exchange, frame, position)

    def _remembered(self, exchange: Exchange, stamp: object, frame: memoryview, position: int) -> Answer | Exchange:
        """The answer of the last time, where nothing has changed since."""
        header, client = exchange.header, exchange.client
        answers = self._answers.setdefault(header.api_key, Answers())
        host = client.host if self._services.authorizer.is_enabled else None
        question = (header.api_version, bytes(frame[position:]), client.local_address, client.principal, host)
        known = answers.find(stamp, question)
        if known is not None:
            return frame_response(header.correlation_id, header.api_key, header.api_version, [known])
        answer = self._worked_out(exchange, frame, position)
        if isinstance(answer, list):
            answers.remember(stamp, question, b"".join(answer)[response_header_size(header) :])
        return answer

    def _worked_out(self, exchange: Exchange, frame: memoryview, position: int) -> Answer | Exchange:
        api = exchange.api
        if len(frame) > LONG_FRAME and api.decode is None:
            exchange.wait_for(self._at_length(exchange, frame, position))
            return exchange
        exchange.request = request = _decode(exchange, frame[position:])
        controller = self._controller
        if controller is not None and api.is_for_controller(request) and not controller.is_here:
            exchange.is_forwarded = True
            exchange.wait_for(forward(controller, exchange.client, request, frame))
            return exchange
        result = api.handle(self._context(exchange.client, exchange.header), request)
        if result is None:
            return silent(exchange)
        if isinstance(result, api.response):
            return _encode(exchange, result)
        if isinstance(result, CoroutineType):
            result = answered(exchange, result)
        exchange.wait_for(result)
        if exchange.bill is not None:
            exchange.bill.pause()
        return exchange

    async def _at_length(self, exchange: Exchange, frame: memoryview, position: int) -> Any:
        """What `_worked_out` does, in slices."""
        exchange.request = request = await decoded(exchange, frame[position:])
        controller = self._controller
        if controller is not None and exchange.api.is_for_controller(request) and not controller.is_here:
            exchange.is_forwarded = True
            return await forward(controller, exchange.client, request, frame)
        context = self._context(exchange.client, exchange.header)
        return await answered(exchange, handled(exchange, context, lambda error: _refusal(exchange, error)))

    def _context(self, client: Client, header: RequestHeader) -> Context:
        return Context(
            self._services,
            header.api_version,
            header.client_id,
            client.host,
            client.connection_id,
            client.local_address,
            client.principal,
            client.listener,
            client.sasl,
        )


def _decode(exchange: Exchange, body: memoryview) -> Any:
    api, version = exchange.api, exchange.header.api_version
    if api.max_bytes is not None and len(body) > api.max_bytes:
        raise ProtocolError(f"{api.name} of {len(body)} bytes, where {api.max_bytes} are let in")
    if api.decode is not None:
        return api.decode(version, body)
    return decode_request(api.request, version, body)


def _encode(exchange: Exchange, message: Any) -> Answer:
    response = exchange.api.response
    (COUNTERS.get(response) or counter_of(response))(exchange.meter, message)
    answer = _encoded(exchange, message)
    if exchange.bill is None:
        return answer
    told = exchange.bill.settle(exchange, sum(map(len, answer)), getattr(message, "throttle_time_ms", 0))
    if told and hasattr(message, "throttle_time_ms"):
        message.throttle_time_ms = told
        answer = _encoded(exchange, message)
    return answer


def _encoded(exchange: Exchange, message: Any) -> list[Any]:
    api, header = exchange.api, exchange.header
    if api.encode is not None:
        body = api.encode(header.api_version, message)
        return frame_response(header.correlation_id, api.key, header.api_version, body)
    return encode_response(header.correlation_id, api.response, header.api_version, message)


def _failed(exchange: Exchange, error: Exception) -> Answer:
    """The API's own error answer; None where there is no way to give one."""
    try:
        refusal = _refusal(exchange, error)
        if exchange.request is None:
            return _encode(exchange, _blind_failure(exchange.api, refusal))
        return _encode(exchange, exchange.api.failure(exchange.request, refusal))
    except ProtocolError as reason:
        log.warning("closing the connection", extra=exchange.facts() | {"reason": reason})
    except Exception:
        log.exception("no error answer can be given, closing the connection", extra=exchange.facts())
    return None


def _refusal(exchange: Exchange, error: Exception) -> KafkaError:
    """What the client is told of an exception; ProtocolError where it cannot be told but by closing the connection."""
    if isinstance(error, KafkaError):
        refusal = error
    elif isinstance(error, StorageError):
        refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    elif isinstance(error, ProtocolError):
        if exchange.request is not None:
            raise error  # a handler asks for it
        refusal = KafkaError(ErrorCode.INVALID_REQUEST, str(error))
    else:
        log.error("request failed", exc_info=error, extra=exchange.facts())
        refusal = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if getattr(exchange.request, "acks", None) == 0:
        raise ProtocolError(f"no answer is expected to tell {refusal.code.name}")
    return refusal


def _blind_failure(api: Api[Any, Any], error: KafkaError) -> Any:
    """An error answer to a request that could not be read, where the API has a place for one outside its items."""
    response = api.failure(api.request(), error)
    if not getattr(response, "error_code", ErrorCode.NONE):
        raise ProtocolError(f"the request cannot be read: {error}")
    return response


def _unknown(client: Client, header: RequestHeader) -> Answer:
    """No schema to answer in: the correlation id lets the client find its request, the error code stands alone."""
    facts = {"client": client.connection_id, "client_id": header.client_id, "key": header.api_key}
    log.warning("unknown API", extra=facts)
    return [_BARE_ERROR.pack(_BARE_ERROR.size - 4, header.correlation_id, ErrorCode.UNSUPPORTED_VERSION)]


def _unsupported(exchange: Exchange, body: memoryview) -> Answer:
    api, header = exchange.api, exchange.header
    # Clients ask ApiVersions in their newest version first, with every connection: that is how they learn of ours.
    level = logging.DEBUG if api.key == API_VERSIONS else logging.WARNING
    log.log(level, "API version not served", extra=exchange.facts())
    error = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if api.key == API_VERSIONS:
        exchange.meter.failed(error.code)
        # In version 0, which every client can read, so that it learns what it may ask for.
        return encode_response(header.correlation_id, api.response, 0, api.failure(api.request(), error))
    if 0 <= header.api_version < api.versions.low:
        exchange.meter.failed(error.code)
        # An old one, whose schema is known: each item gets its error.
        request_class, response_class = classes(api.key)
        request = decode_request(request_class, header.api_version, body)
        return encode_response(header.correlation_id, response_class, header.api_version, api.failure(request, error))
    header.api_version = api.versions.high if header.api_version > 0 else api.versions.low  # the nearest there is
    return _encode(exchange, _blind_failure(api, error))
