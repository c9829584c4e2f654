"""Requests that are long, or whose responses may be: decoded, handled and encoded in slices, between which others get their turn.

The number of a request's items is bounded before any is decoded. A request that `Api.parts` can cut is handled in parts. Others,
which decide about all of their items at once, may have fewer items.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from kompat.common.slices import driven
from kompat.handlers.support.base import Context
from kompat.handlers.support.in_parts import Refuse, answer, answer_in_parts
from kompat.handlers.support.parts import cut_for
from kompat.protocol.codec import decode_request_in_steps, encode_response_in_steps
from kompat.server.answer_sizes import is_short
from kompat.server.error_codes import errors_in_steps

if TYPE_CHECKING:
    from kompat.server.dispatch import Exchange

LONG_FRAME = 4 * 1024  # bytes; a shorter one has some hundred items, and is dealt with at once
LONG_FETCH = 16 * 1024  # bytes, where `decode` is hand-written: some hundred partitions
MOST_ITEMS = 100_000
MOST_AT_ONCE = 20_000  # items of a request that cannot be cut


async def decoded(exchange: Exchange, body: memoryview) -> Any:
    handler, version = exchange.api.handler, exchange.header.api_version
    if handler.decode_in_steps is not None:
        return await driven(handler.decode_in_steps(version, body))
    most = MOST_ITEMS if handler.parts else MOST_AT_ONCE
    return await driven(decode_request_in_steps(handler.request, version, body, most))


async def handled(exchange: Exchange, ctx: Context, refuse: Refuse) -> Any:
    api, request = exchange.api, exchange.request
    cut = cut_for(api.handler.parts, request)
    if cut is not None:
        return await answer_in_parts(api, request, cut, lambda part: answer(api, ctx, part), refuse)
    try:
        return await answer(api, ctx, request)
    except Exception as error:  # noqa: BLE001 - the client gets an error response
        return api.handler.failure(request, refuse(error))


async def answered(exchange: Exchange, work: Coroutine[Any, Any, Any]) -> Any:
    """The response that `work` returns; a long one is encoded, and its errors are counted."""
    message = await work
    if message is None or exchange.api.handler.encode is not None or is_short(message):
        return message
    exchange.is_encoded = True
    await driven(errors_in_steps(exchange.api.handler.response, exchange.meter, message))
    frame = await _encoded(exchange, message)
    if exchange.bill is None:
        return frame
    throttle_ms = exchange.bill.charge(exchange, sum(map(len, frame)), getattr(message, "throttle_time_ms", 0))
    if throttle_ms and hasattr(message, "throttle_time_ms"):
        message.throttle_time_ms = throttle_ms
        frame = await _encoded(exchange, message)
    return frame


def silent(exchange: Exchange) -> list[Any]:
    """The client expects no response; it may be throttled all the same."""
    if exchange.bill is not None:
        exchange.bill.charge(exchange, 0)
    return []


async def _encoded(exchange: Exchange, message: Any) -> list[Any]:
    api, header = exchange.api, exchange.header
    return await driven(
        encode_response_in_steps(header.correlation_id, api.handler.response, header.api_version, message)
    )
