"""Handles a request in the parts that `Api.parts` cuts it into, with pauses between them, in which other requests get their turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kompat.common.slices import Slice
from kompat.errors import KafkaError, ProtocolError
from kompat.handlers.support.base import Api, Context
from kompat.handlers.support.parts import Cut, join, parts

Refuse = Callable[[Exception], KafkaError]


async def answer(api: Api, ctx: Context, request: Any) -> Any:
    result = api.handler.handle(ctx, request)
    return result if result is None or isinstance(result, api.handler.response) else await result


async def answer_in_parts(
    api: Api, request: Any, cut: Cut, handle: Callable[[Any], Awaitable[Any]], refuse: Refuse
) -> Any:
    """`handle` answers a part. `refuse`: the error that the client gets for an exception; it raises what cannot be reported."""
    answered, refusal = None, None
    turn = Slice()
    for part in parts(request, cut):
        if turn.is_over:
            await turn.pause()
        if part is None:
            continue
        if refusal is None:
            try:
                more = await handle(part.request)
            except ProtocolError:
                raise
            except Exception as error:  # noqa: BLE001 - this part and those behind it get the error
                refusal = refuse(error)
        if refusal is not None:
            more = api.handler.failure(part.request, refusal)
        if answered is None:
            answered = more
        else:
            join(answered, more, cut, part.depth)
    return answered
