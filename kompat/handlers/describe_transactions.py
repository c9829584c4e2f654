"""DescribeTransactions: the coordinator's state of transactional ids."""

from __future__ import annotations

from collections import defaultdict

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.parts import Cut
from kompat.protocol.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from kompat.security.acls import Kind, Operation
from kompat.txn.state import Transaction

State = DescribeTransactionsResponse.TransactionState


async def handle(ctx: Context, req: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[await _describe(ctx, each) for each in req.transactional_ids]
    )


async def _describe(ctx: Context, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
    try:
        ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.TRANSACTIONAL_ID, transactional_id)
        return _state(ctx, await ctx.services.transactions.describe(transactional_id))
    except KafkaError as error:
        return State(error_code=error.code, transactional_id=transactional_id)


def _state(ctx: Context, transaction: Transaction) -> DescribeTransactionsResponse.TransactionState:
    topics: dict[str, list[int]] = defaultdict(list)
    for each in sorted(transaction.partitions):
        topics[each.topic].append(each.partition)
    visible = ctx.services.authorizer.allowed(ctx, Operation.DESCRIBE, Kind.TOPIC, topics)
    return State(
        error_code=ErrorCode.NONE,
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.wire_name,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            State.TopicData(topic=topic, partitions=indices) for topic, indices in topics.items() if topic in visible
        ],
    )


def failure(req: DescribeTransactionsRequest, error: KafkaError) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[State(error_code=error.code, transactional_id=each) for each in req.transactional_ids]
    )


HANDLER = Handler(
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    handle,
    failure,
    parts=(Cut("transactional_ids", "transaction_states"),),
)
