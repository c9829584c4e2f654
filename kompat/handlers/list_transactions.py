"""ListTransactions: transactional ids by state, producer id, age (v1+) and pattern (v2).

States that are no states are named in the answer and filter nothing. An id without a transaction is older than any age,
as in Kafka. A pattern is a regular expression that the whole id has to match; one that is none is answered
INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

from kompat._native import NamePattern
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.protocol.messages import ListTransactionsRequest, ListTransactionsResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.state import State, Transaction
from kompat.types import Millis

NO_FILTER = -1
# Kafka knows these too; here no transaction is ever seen in them.
STATES = {state.wire_name for state in State} | {"Dead", "PrepareEpochFence"}


async def handle(ctx: Context, req: ListTransactionsRequest) -> ListTransactionsResponse:
    pattern = _pattern(req.transactional_id_pattern)
    now = ctx.services.clock.now()
    states = {name for name in req.state_filters if name in STATES}
    everything = [] if req.state_filters and not states else await ctx.services.transactions.all()
    producers = set(req.producer_id_filters)
    listed = [
        ListTransactionsResponse.TransactionState(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            transaction_state=each.state.wire_name,
        )
        async for each in sliced(everything)
        if _matches(each, req, states, producers, pattern, now) and _is_visible(ctx, each.transactional_id)
    ]
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[name for name in req.state_filters if name not in STATES],
        transaction_states=listed,
    )


def _is_visible(ctx: Context, transactional_id: str) -> bool:
    return ctx.services.authorizer.allows(ctx, Operation.DESCRIBE, Kind.TRANSACTIONAL_ID, transactional_id)


def _pattern(text: str | None) -> NamePattern | None:
    if not text:
        return None
    try:
        return NamePattern(text)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{text!r} is no regular expression: {error}") from error


def _matches(
    t: Transaction,
    req: ListTransactionsRequest,
    states: set[str],
    producers: set[int],
    pattern: NamePattern | None,
    now: Millis,
) -> bool:
    return (
        (not states or t.state.wire_name in states)
        and (not producers or t.producer_id in producers)
        and (req.duration_filter <= NO_FILTER or now - t.start_ms > req.duration_filter)
        and (pattern is None or bool(pattern.select([t.transactional_id])))
    )


def failure(_: ListTransactionsRequest, error: KafkaError) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code, unknown_state_filters=[], transaction_states=[])


HANDLER = Handler(ListTransactionsRequest, ListTransactionsResponse, handle, failure)
