"""From a frame to a response: find the API, check the version, decode, handle, encode; every failure gets a response.

A response is a list of buffers to send, length prefix included; an empty list where the client expects none; or None
where no response can be made and the connection has to be closed, which the client notices at once.
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

from kompat.common.meters import LATENCIES, ApiMeter, Meters
from kompat.common.promise import Promise
from kompat.common.watchdog import WARN_SECONDS, warn, watched
from kompat.errors import ErrorCode, KafkaError, ProtocolError, StorageError
from kompat.handlers.support.base import Api, Context
from kompat.protocol.api_keys import ApiKey
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
from kompat.server.long_requests import LONG_FETCH, LONG_FRAME, answered, decoded, handled, silent
from kompat.server.throttling import Bill, passed_on

if TYPE_CHECKING:
    from kompat.handlers.support.sasl_session import SaslSession
    from kompat.handlers.support.services import Services

log = logging.getLogger(__name__)

Answer = list[Any] | None

LOGINS = (
    ApiKey.SaslHandshake,
    ApiKey.SaslAuthenticate,
)  # of a client that is not authenticated yet, and so has no quota
_BARE_ERROR = struct.Struct(">iih")  # length, correlation id, error code


@dataclass(slots=True)
class Client:
    """The client at the other end of a connection."""

    host: str
    connection_id: str
    local_address: tuple[str, int]
    principal: str = "User:ANONYMOUS"
    listener: str = ""  # the name of the one that it came by
    sasl: SaslSession | None = None  # where the client has to authenticate
    mute: Callable[[float], None] | None = None  # begin none of its requests for these seconds


class Exchange(Promise[Answer]):
    """A request under way: the promise of its answer."""

    __slots__ = (
        "_awaited",
        "_hastened",
        "api",
        "begun",
        "bill",
        "client",
        "frame_size",
        "has_taken_place",
        "header",
        "is_encoded",
        "is_forwarded",
        "meter",
        "request",
        "size",
    )

    def __init__(
        self, client: Client, header: RequestHeader, api: Api, size: int, meter: ApiMeter, begun: float
    ) -> None:
        # As a promise begins; every request has one of these, and its base's method would be one more call.
        self.is_done = False
        self.error = self._result = self._callback = self._others = None
        self.client = client
        self.header = header
        self.api = api
        self.size = self.frame_size = size  # in bytes, of what it keeps in memory, and of its frame
        self.meter = meter
        self.begun = begun
        self.bill: Bill | None = None  # where quotas count
        self._awaited: Promise[Any] | asyncio.Task[None]
        self._hastened: str | None = None  # what a long poll is to do as soon as there is one
        self.request: Any = None  # until it has been decoded
        self.has_taken_place = True  # a handler that returns no coroutine has, and waits for the outcome only
        self.is_forwarded = False  # another broker encodes its answer
        self.is_encoded = False  # it waits for an answer that is encoded already

    def wait_for(self, awaited: Any, on_end: Callable[[], None] | None = None) -> None:
        """Answer when `awaited` is done. A promise calls back as it is done; only a coroutine costs a task.

        `on_end`: closes a coroutine that was cancelled before it began, which Python would else report as never awaited.
        """
        if isinstance(awaited, Promise):
            self._awaited = awaited
            awaited.add_done_callback(self._complete)
        else:
            timed = awaited if self.bill is None else self.bill.timed(awaited)
            self._awaited = task = asyncio.get_running_loop().create_task(self._carried_out(timed))
            self.has_taken_place = False
            if on_end is not None:
                task.add_done_callback(lambda _: on_end())

    async def _carried_out(self, work: Any) -> None:
        """Answer as soon as it is done: what is to be called back by a task has to wait for another turn of the event loop."""
        try:
            result = await watched(work, self.held)
        except Exception as error:
            self._complete(Promise.failed(error))
            return
        except asyncio.CancelledError:
            self._finished(None, perf_counter())
            return
        if not isinstance(result, Promise):
            self._complete(Promise.resolved(result))
            return
        self.wait_for(result)  # a long poll, whose request took long to decode
        if self._hastened is not None:
            getattr(result, self._hastened)()

    def held(self, seconds: float) -> None:
        """The request has held the event loop for these seconds."""
        self.meter.held(seconds)
        if seconds > WARN_SECONDS:
            warn(self.api.name, seconds)

    def abandon(self, *, is_final: bool) -> None:
        """The client is gone, and does not wait for the response any more.

        A long poll ends. A coroutine may be in the middle of a change, and others may wait for what it waits for: it
        goes on, unless the broker is about to end too.
        """
        self._callback = self._others = None
        self._hastened = "cancel"
        if not self.is_done and (is_final or isinstance(self._awaited, Promise)):
            self._awaited.cancel()

    def complete_now(self) -> None:
        """The broker is about to stop, or another request waits for this one: what waits for something to happen answers without it."""
        self._hastened = self._hastened or "complete_now"
        if not self.is_done and isinstance(self._awaited, Promise):
            self._awaited.complete_now()

    def _complete(self, promise: Promise[Any]) -> None:
        begun = perf_counter()
        if self.bill is not None:
            self.bill.go_on()
        try:
            result = promise.result()
            if self.is_encoded:
                answer = result
            elif result is None:
                answer = silent(self)
            else:
                answer = passed_on(self, result) if self.is_forwarded else _encode(self, result)
        except Exception as error:
            answer = _failed(self, error)
        now = perf_counter()
        self.held(now - begun)
        self._finished(answer, now)

    def _finished(self, answer: Answer, now: float) -> None:
        self.count(answer, now)
        self.resolve(answer)

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
        apis: Iterable[Api],
        services: Services,
        meters: Meters | None = None,
    ) -> None:
        counted = meters or Meters()
        self._services = services
        self._quotas = services.quotas
        self._answers: dict[int, Answers] = {}
        self._meters: dict[int, ApiMeter] = {}
        self._apis: dict[int, Api] = {}
        for api in apis:
            key = int(api.key)  # as headers have it: a dictionary finds plain numbers sooner
            if self._apis.setdefault(key, api) is not api:
                raise ValueError(f"two handlers for API key {key}: {self._apis[key].name} and {api.name}")
            self._meters[key] = counted.api(key, api.name)

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
        if api.handler.stamp is not None and len(frame) <= LONGEST_QUESTION and exchange.bill is None:
            return self._remembered(exchange, api.handler.stamp(self._services), frame, position)
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
        _check_size(api, frame[position:])
        if len(frame) > LONG_FRAME and _is_long(api, frame):
            work = self._at_length(exchange, frame, position)
            exchange.wait_for(work, on_end=work.close)
            return exchange
        exchange.request = request = _decode(exchange, frame[position:])
        if api.handler.is_for_controller(request) and not self._services.cluster.is_controller:
            exchange.is_forwarded = True
            exchange.wait_for(forward(self._services.cluster.rpc, exchange.client, request, frame))
            return exchange
        result = api.handler.handle(self._context(exchange.client, exchange.header), request)
        if result is None:
            return silent(exchange)
        if isinstance(result, api.handler.response):
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
        if exchange.api.handler.decode_in_steps is not None:
            return exchange.api.handler.handle(self._context(exchange.client, exchange.header), request)
        if exchange.api.handler.is_for_controller(request) and not self._services.cluster.is_controller:
            exchange.is_forwarded = True
            return await forward(self._services.cluster.rpc, exchange.client, request, frame)
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


def _is_long(api: Api, frame: memoryview) -> bool:
    """Whether a long frame is decoded in slices."""
    return api.handler.decode is None or (api.handler.decode_in_steps is not None and len(frame) > LONG_FETCH)


def _check_size(api: Api, body: memoryview) -> None:
    if api.handler.max_bytes is not None and len(body) > api.handler.max_bytes:
        raise ProtocolError(f"{api.name} of {len(body)} bytes, where {api.handler.max_bytes} are let in")


def _decode(exchange: Exchange, body: memoryview) -> Any:
    api, version = exchange.api, exchange.header.api_version
    if api.handler.decode is not None:
        return api.handler.decode(version, body)
    return decode_request(api.handler.request, version, body)


def _encode(exchange: Exchange, message: Any) -> Answer:
    response = exchange.api.handler.response
    (COUNTERS.get(response) or counter_of(response))(exchange.meter, message)
    answer = _encoded(exchange, message)
    if exchange.bill is None:
        return answer
    throttle_ms = exchange.bill.charge(exchange, sum(map(len, answer)), getattr(message, "throttle_time_ms", 0))
    if throttle_ms and hasattr(message, "throttle_time_ms"):
        message.throttle_time_ms = throttle_ms
        answer = _encoded(exchange, message)
    return answer


def _encoded(exchange: Exchange, message: Any) -> list[Any]:
    api, header = exchange.api, exchange.header
    if api.handler.encode is not None:
        body = api.handler.encode(header.api_version, message)
        return frame_response(header.correlation_id, header.api_key, header.api_version, body)
    return encode_response(header.correlation_id, api.handler.response, header.api_version, message)


def _failed(exchange: Exchange, error: Exception) -> Answer:
    """The API's own error answer; None where there is no way to give one."""
    try:
        refusal = _refusal(exchange, error)
        if exchange.request is None:
            return _encode(exchange, _blind_failure(exchange.api, refusal))
        return _encode(exchange, exchange.api.handler.failure(exchange.request, refusal))
    except ProtocolError as reason:
        log.warning("closing the connection", extra=exchange.facts() | {"reason": reason})
    except Exception:
        log.exception("no error answer can be given, closing the connection", extra=exchange.facts())
    return None


def _refusal(exchange: Exchange, error: Exception) -> KafkaError:
    """The error that the client gets for an exception; raises ProtocolError where only closing the connection can report it."""
    if isinstance(error, KafkaError):
        refusal = error
    elif isinstance(error, StorageError):
        refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    elif isinstance(error, ProtocolError):
        if exchange.request is not None:
            raise error  # a handler wants the connection closed
        refusal = KafkaError(ErrorCode.INVALID_REQUEST, str(error))
    else:
        log.error("request failed", exc_info=error, extra=exchange.facts())
        refusal = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if getattr(exchange.request, "acks", None) == 0:
        raise ProtocolError(f"{refusal.code.name}, and acks=0 gets no response")
    return refusal


def _blind_failure(api: Api, error: KafkaError) -> Any:
    """An error answer to a request that could not be read, where the API has a place for one outside its items."""
    response = api.handler.failure(api.handler.request(), error)
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
    # Clients send ApiVersions in their newest version first, on every connection: so they learn which versions are served.
    level = logging.DEBUG if api.key is ApiKey.ApiVersions else logging.WARNING
    log.log(level, "API version not served", extra=exchange.facts())
    error = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if api.key is ApiKey.ApiVersions:
        exchange.meter.failed(error.code)
        # In version 0, which every client can read, so that it learns which versions are served.
        return encode_response(
            header.correlation_id, api.handler.response, 0, api.handler.failure(api.handler.request(), error)
        )
    if 0 <= header.api_version < api.versions.low:
        exchange.meter.failed(error.code)
        # An old one, whose schema is known: each item gets its error.
        request_class, response_class = classes(api.key)
        request = decode_request(request_class, header.api_version, body)
        return encode_response(
            header.correlation_id, response_class, header.api_version, api.handler.failure(request, error)
        )
    header.api_version = api.versions.high if header.api_version > 0 else api.versions.low  # the nearest there is
    return _encode(exchange, _blind_failure(api, error))
