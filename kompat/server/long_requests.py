"""Requests that are long, or whose answers may be: decoded, handled and encoded in slices, between which all others have their turn.

The number of a request's items is bounded before anything is made of them. One that `Api.parts` can cut is handled in parts; of
others, which decide about all of their items at once, fewer are let in.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from kompat.errors import KafkaError, ProtocolError
from kompat.handlers.base import Api, Context
from kompat.handlers.parts import Cut, cut_for, join, parts
from kompat.protocol.codec import decode_request_in_steps, encode_response_in_steps
from kompat.server.answer_sizes import is_short
from kompat.server.error_codes import errors_in_steps
from kompat.slices import Slice

if TYPE_CHECKING:
    from kompat.server.dispatch import Exchange

LONG_FRAME = 4 * 1024  # bytes; a shorter one has some hundred items, and is dealt with at once
MOST_ITEMS = 100_000
MOST_AT_ONCE = 20_000  # items of a request that cannot be cut

T = TypeVar("T")
Refuse = Callable[[Exception], KafkaError]


async def driven(steps: Generator[None, None, T]) -> T:
    """What the steps come to; others have a turn whenever a slice is over."""
    turn = Slice()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        if turn.is_over:
            await turn.pause()


async def decoded(exchange: Exchange, body: memoryview) -> Any:
    api = exchange.api
    most = MOST_ITEMS if api.parts else MOST_AT_ONCE
    return await driven(decode_request_in_steps(api.request, exchange.header.api_version, body, most))


async def handled(exchange: Exchange, ctx: Context, refuse: Refuse) -> Any:
    api, request = exchange.api, exchange.request
    cut = cut_for(api.parts, request)
    if cut is not None:
        return await _in_parts(api, ctx, request, cut, refuse)
    try:
        return await _answer(api, ctx, request)
    except Exception as error:  # noqa: BLE001 - the client is told
        return api.failure(request, refuse(error))


async def _answer(api: Api[Any, Any], ctx: Context, request: Any) -> Any:
    result = api.handle(ctx, request)
    return result if result is None or isinstance(result, api.response) else await result


async def _in_parts(api: Api[Any, Any], ctx: Context, request: Any, cut: Cut, refuse: Refuse) -> Any:
    answer, refusal = None, None
    turn = Slice()
    for part in parts(request, cut):
        if turn.is_over:
            await turn.pause()
        if part is None:
            continue
        if refusal is None:
            try:
                more = await _answer(api, ctx, part.request)
            except ProtocolError:
                raise
            except Exception as error:  # noqa: BLE001 - the client is told, of this part and of those behind it
                refusal = refuse(error)
        if refusal is not None:
            more = api.failure(part.request, refusal)
        if answer is None:
            answer = more
        else:
            join(answer, more, cut, part.depth)
    return answer


async def answered(exchange: Exchange, work: Coroutine[Any, Any, Any]) -> Any:
    """The answer that `work` comes to; a long one as it goes out, and its errors are counted."""
    message = await work
    if message is None or exchange.api.encode is not None or is_short(message):
        return message
    exchange.is_encoded = True
    await driven(errors_in_steps(exchange.api.response, exchange.meter, message))
    answer = await _encoded(exchange, message)
    if exchange.bill is None:
        return answer
    told = exchange.bill.settle(exchange, sum(map(len, answer)), getattr(message, "throttle_time_ms", 0))
    if told and hasattr(message, "throttle_time_ms"):
        message.throttle_time_ms = told
        answer = await _encoded(exchange, message)
    return answer


def silent(exchange: Exchange) -> list[Any]:
    """The client expects no answer; it may have to wait for all that."""
    if exchange.bill is not None:
        exchange.bill.settle(exchange, 0)
    return []


async def _encoded(exchange: Exchange, message: Any) -> list[Any]:
    api, header = exchange.api, exchange.header
    return await driven(encode_response_in_steps(header.correlation_id, api.response, header.api_version, message))
