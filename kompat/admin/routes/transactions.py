"""Transactions: list, describe, abort."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from kompat.admin.fan_out import brokers, together
from kompat.admin.problems import check
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Answer, Body, Page, PageQuery, page, rfc3339
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.find_coordinator import KeyType
from kompat.protocol.messages import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from kompat.types import NodeId

TRIES, PAUSE = 50, 0.1  # an abort waits for the markers in all partitions
UNDER_WAY = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

TopicName = Annotated[str, Meta(max_length=249)]


class TransactionsQuery(PageQuery):
    state: Annotated[str, Meta(max_length=64, description="such as Ongoing or CompleteCommit")] | None = None
    search: Annotated[str, Meta(max_length=1024, description="only transactional ids that contain this text")] = ""


class TransactionSummary(Answer):
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionTopic(Answer):
    topic: str
    partitions: list[int]


class Transaction(Answer):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    coordinator: int
    timeout_ms: int
    started_at: str | None
    start_timestamp: int | None
    topics: list[TransactionTopic]


class Hanging(Body):
    topic: TopicName
    partition: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    producer_id: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Ended(Answer):
    topic: str
    partition: int
    producer_id: int
    start_offset: int


async def list_transactions(call: Call) -> Page[TransactionSummary]:
    query = call.query
    request = ListTransactionsRequest(state_filters=[query.state] if query.state else [], duration_filter=-1)

    async def ask(node: NodeId) -> list[TransactionSummary]:
        response = await call.send(request, to=node)
        check(response.error_code)
        return [
            TransactionSummary(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                state=each.transaction_state,
                coordinator=node,
            )
            for each in response.transaction_states
            if query.search in each.transactional_id
        ]

    found = await together(ask(node) for node in brokers(call))
    known = {each.transactional_id: each for listed in found for each in listed}
    return await page(known.values(), lambda each: each.transactional_id, query.limit, query.cursor)


async def get_transaction(call: Call) -> Transaction:
    name = call.path["id"]
    coordinator = await call.requests.to_coordinator(name, KeyType.TRANSACTION)
    response = await call.send(DescribeTransactionsRequest(transactional_ids=[name]), to=coordinator)
    found = response.transaction_states[0]
    is_missing = found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    check(found.error_code, f"Transactional id {name} does not exist." if is_missing else None)
    has_begun = found.transaction_start_time_ms >= 0
    return Transaction(
        transactional_id=name,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        state=found.transaction_state,
        coordinator=coordinator,
        timeout_ms=found.transaction_timeout_ms,
        started_at=rfc3339(found.transaction_start_time_ms) if has_begun else None,
        start_timestamp=found.transaction_start_time_ms if has_begun else None,
        topics=[TransactionTopic(topic=each.topic, partitions=list(each.partitions)) for each in found.topics],
    )


async def abort(call: Call) -> Transaction:
    """Abort as a new producer with the same id does: the old one is fenced, and its open transaction is aborted."""
    known = await get_transaction(call)
    request = InitProducerIdRequest(
        transactional_id=known.transactional_id, transaction_timeout_ms=max(1, known.timeout_ms)
    )
    for _ in range(TRIES):
        response = await call.send(request, to=NodeId(known.coordinator))
        if response.error_code not in UNDER_WAY:
            break
        await asyncio.sleep(PAUSE)
    check(response.error_code)
    return await get_transaction(call)


async def end_hanging(call: Call) -> Ended:
    """Abort as `kafka-transactions abort` does: write a marker for a transaction that its coordinator does not have any more."""
    body: Hanging = call.body
    leader = await call.requests.to_leader(body.topic, body.partition)
    producer = await _producer(call, leader)
    kind = WriteTxnMarkersRequest.WritableTxnMarker
    marker = kind(
        producer_id=body.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        coordinator_epoch=max(0, producer.coordinator_epoch),
        topics=[kind.WritableTxnMarkerTopic(name=body.topic, partition_indexes=[body.partition])],
    )
    response = await call.send(WriteTxnMarkersRequest(markers=[marker]), to=leader)
    for marked in response.markers:
        for topic in marked.topics:
            for each in topic.partitions:
                check(each.error_code)
    return Ended(
        topic=body.topic,
        partition=body.partition,
        producer_id=body.producer_id,
        start_offset=producer.current_txn_start_offset,
    )


async def _producer(call: Call, leader: NodeId) -> Any:
    body: Hanging = call.body
    requested = DescribeProducersRequest.TopicRequest(name=body.topic, partition_indexes=[body.partition])
    response = await call.send(DescribeProducersRequest(topics=[requested]), to=leader)
    partition = response.topics[0].partitions[0]
    check(partition.error_code, partition.error_message)
    for each in partition.active_producers:
        if each.producer_id == body.producer_id and each.current_txn_start_offset >= 0:
            return each
    raise KafkaError(
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"Producer {body.producer_id} has no open transaction in this partition."
    )


ROUTES = [
    Route(
        method="GET", path="/v1/transactions", handle=list_transactions, summary="List transactional ids",
        tag="transactions", query=TransactionsQuery, answer=Page[TransactionSummary],
    ),
    Route(
        method="GET", path="/v1/transactions/{id}", handle=get_transaction, summary="Describe a transactional id",
        tag="transactions", answer=Transaction,
    ),
    Route(
        method="POST", path="/v1/transactions/{id}/abort", handle=abort, summary="Fence a producer and abort its open transaction",
        tag="transactions", answer=Transaction, problems=(409,),
    ),
    Route(
        method="POST", path="/v1/transactions/abort-hanging", handle=end_hanging,
        summary="Abort a hanging transaction in one partition", tag="transactions",
        body=Hanging, answer=Ended, problems=(404,),
    ),
]  # fmt: skip
