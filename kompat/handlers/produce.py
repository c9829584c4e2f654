"""Produce: append record batches to partitions, answer when they are committed.

Advertised from v0, because old librdkafka turns compression off where the range does not include 0; v0-2 are answered
UNSUPPORTED_VERSION. acks=0 gets no response, and an error then closes the connection: it is the only way to report it.
Every partition is checked by itself; the response waits for all of them. acks=all waits for a majority of the replicas, at most
for the request's timeout; acks=1 for this broker's log. A broker that does not lead returns the current leader (v10+).
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from kompat.common.promise import Promise
from kompat.common.slices import Slice, sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.partitions import hosted
from kompat.handlers.support.produce_order import refusal
from kompat.handlers.support.produce_reply import ALL, UNKNOWN_OFFSET, Reply, refused_partition
from kompat.handlers.support.transactional_produce import Guard, admit, is_part
from kompat.log.interceptor import Costly, Prepared
from kompat.log.partition import Origin, Partition
from kompat.protocol.batch import CODEC_MASK, FLAGS_AT, TRANSACTIONAL
from kompat.protocol.produce import (
    PartitionData,
    PartitionResponse,
    ProduceRequest,
    ProduceResponse,
    TopicData,
    TopicResponse,
    decode_produce_request,
    encode_produce_response,
)
from kompat.protocol.records import HEADER_SIZE, read_header
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

VALID_ACKS = (-1, 0, 1)
ZSTD = 4
FIRST_VERSION_WITH_ZSTD = 7

Refused = Mapping[tuple[str, UUID, int], KafkaError]  # by topic, its id, and partition
NOBODY: Refused = {}


def handle(
    ctx: Context, req: ProduceRequest
) -> Awaitable[ProduceResponse | None] | Promise[ProduceResponse | None] | ProduceResponse | None:
    denied = _denied(ctx, req) if ctx.services.authorizer.is_enabled else NOBODY
    if req.transactional_id is not None and not _is_admitted(ctx, req, req.transactional_id, denied):
        return _handle_in_turn(ctx, req, req.transactional_id, denied)
    return _append_all(ctx, req, denied)


def _denied(ctx: Context, req: ProduceRequest) -> Refused:
    """What the client may not write to."""
    authorizer, cluster = ctx.services.authorizer, ctx.services.cluster
    if req.transactional_id is not None and _has_transactional(req):
        authorizer.require(ctx, Operation.WRITE, Kind.TRANSACTIONAL_ID, req.transactional_id)
    denied = {}
    for topic in req.topic_data:
        known = None if topic.topic_id == ZERO_UUID else cluster.topic_by_id(topic.topic_id)
        name = topic.name if known is None else known.name
        if name and not authorizer.allows(ctx, Operation.WRITE, Kind.TOPIC, name):
            error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            denied.update({(topic.name, topic.topic_id, data.index): error for data in topic.partition_data})
    return denied


def _has_transactional(req: ProduceRequest) -> bool:
    return any(
        data.records is not None and len(data.records) > FLAGS_AT and data.records[FLAGS_AT] & TRANSACTIONAL
        for topic in req.topic_data
        for data in topic.partition_data
    )


def _is_admitted(ctx: Context, req: ProduceRequest, transactional_id: str, denied: Refused) -> bool:
    """The usual case: no coordinator is involved, so its batches are appended at once, and later requests may follow."""
    if denied or not ctx.services.produce_turns.is_free(transactional_id):
        return False
    logs = ctx.services.logs
    for topic in req.topic_data:
        for data in topic.partition_data:
            by_name = topic.topic_id == ZERO_UUID
            found = logs.find(topic.name, data.index) if by_name else logs.find_by_id(topic.topic_id, data.index)
            if found is None or data.records is None or not is_part(found, data.records):
                return False
    return True


async def _handle_in_turn(
    ctx: Context, req: ProduceRequest, transactional_id: str, denied: Refused
) -> ProduceResponse | None:
    """Append a transaction's batches, once the coordinator has added their partitions."""
    async with ctx.services.produce_turns.of(transactional_id):
        refused = dict(denied)
        guards: dict[tuple[str, UUID, int], Guard] = {}
        for topic in req.topic_data:
            for data in topic.partition_data:
                key = topic.name, topic.topic_id, data.index
                try:
                    if data.records is not None and key not in denied:
                        partition = hosted(ctx, topic.name, topic.topic_id, data.index)
                        partition.require_writable(Origin.CLIENT)  # before the transaction has it
                        guard = await _admitted(ctx, transactional_id, partition, data.records)
                        if guard is not None:
                            guards[key] = guard
                except KafkaError as error:
                    refused[key] = error
        refused.update({key: guard.refusal for key, guard in guards.items() if not guard.holds})
        reply = _append_all(ctx, req, refused)
        if isinstance(reply, Coroutine):
            return await reply
    return await reply if isinstance(reply, Promise) else reply


async def _admitted(ctx: Context, transactional_id: str, partition: Partition, records: memoryview) -> Guard | None:
    try:
        return await admit(ctx, transactional_id, partition, records)
    except KafkaError as error:
        raise refusal(partition, records, error) from error


def _append_all(
    ctx: Context, req: ProduceRequest, refused: Refused
) -> Coroutine[Any, Any, ProduceResponse | None] | Promise[ProduceResponse | None] | ProduceResponse | None:
    reply = Reply(ctx, req)
    put_off: list[_PutOff] = []
    turn = Slice()
    for topic in req.topic_data:
        responses: list[PartitionResponse] = []
        for data in topic.partition_data:
            refusal = refused.get((topic.name, topic.topic_id, data.index)) if refused else None
            costly = None
            if refusal:
                responses.append(reply.refused(topic, data.index, refusal))
                continue
            if (
                not put_off and not turn.is_over
            ):  # else what comes behind it waits, too: it may be of the same partition
                try:
                    responses.append(_append(ctx, req, topic, data, reply))
                    continue
                except Costly as found:
                    costly = found
            put_off.append(_PutOff(topic, data, costly, _guard(ctx, topic, data), responses, len(responses)))
            responses.append(
                PartitionResponse(data.index, ErrorCode.NONE, UNKNOWN_OFFSET, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
            )
        reply.response.responses.append(TopicResponse(topic.name, topic.topic_id, responses))
    return _append_later(ctx, req, reply, put_off) if put_off else reply.when_committed()


class _PutOff(NamedTuple):
    """Append a batch that takes long, or that is behind such batches."""

    topic: TopicData
    data: PartitionData
    costly: Costly | None
    guard: Guard | None
    responses: list[PartitionResponse]  # where its own belongs
    place: int


def _guard(ctx: Context, topic: TopicData, data: PartitionData) -> Guard | None:
    """Its transaction may end meanwhile."""
    records = data.records
    if records is None or len(records) < HEADER_SIZE or not records[FLAGS_AT] & TRANSACTIONAL:
        return None
    with suppress(KafkaError):  # it is refused when its turn comes
        return Guard(hosted(ctx, topic.name, topic.topic_id, data.index), read_header(records).producer_id)
    return None


async def _append_later(
    ctx: Context, req: ProduceRequest, reply: Reply, put_off: Sequence[_PutOff]
) -> ProduceResponse | None:
    async for each in sliced(put_off):
        prepared: Prepared | KafkaError | None = None
        costly = each.costly
        while True:
            if costly is not None:
                prepared = await _prepared(costly)
            try:
                response = _append(ctx, req, each.topic, each.data, reply, prepared, each.guard)
            except Costly as found:  # its records may take long, and then their headers
                costly = found
            else:
                each.responses[each.place] = response
                break
    outcome = reply.when_committed()
    return await outcome if isinstance(outcome, Promise) else outcome


async def _prepared(costly: Costly) -> Prepared | KafkaError:
    try:
        return await costly.prepare()
    except KafkaError as error:
        return error


def _append(
    ctx: Context,
    req: ProduceRequest,
    topic: TopicData,
    data: PartitionData,
    reply: Reply,
    prepared: Prepared | KafkaError | None = None,
    guard: Guard | None = None,
) -> PartitionResponse:
    """Raises Costly, unless it is `prepared` for that."""
    log_start, partition = UNKNOWN_OFFSET, None
    try:
        records = _checked(ctx, req, data)
        partition = hosted(ctx, topic.name, topic.topic_id, data.index)
        log_start = partition.log_start_offset
        replica = partition.replica if req.acks == ALL else None
        if replica is not None:
            replica.require_in_sync()
        if guard is not None:
            guard.check()
        if isinstance(prepared, KafkaError):
            raise prepared
        appended = partition.append(records, prepared=prepared, is_patient=True, client_id=ctx.client_id)
        if replica is not None:
            appended.pending = replica.when_in_min_isr(appended.pending)
        meter = partition.meter
        meter.bytes_in += len(records)
        meter.records_in += appended.last_offset - appended.base_offset + 1
        return reply.started(topic, partition, records, appended)
    except KafkaError as error:
        reported = error if partition is None else refusal(partition, data.records, error)
        return reply.refused(topic, data.index, reported, log_start)


def _checked(ctx: Context, req: ProduceRequest, data: PartitionData) -> memoryview:
    """What can be refused without looking for the partition."""
    records = data.records
    if req.acks not in VALID_ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the partition has no records")
    if len(records) > FLAGS_AT:
        attributes = records[FLAGS_AT]
        if attributes & TRANSACTIONAL and req.transactional_id is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if attributes & CODEC_MASK == ZSTD and ctx.api_version < FIRST_VERSION_WITH_ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7")
    return records


def failure(req: ProduceRequest, error: KafkaError) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicResponse(t.name, t.topic_id, [refused_partition(p.index, error) for p in t.partition_data])
            for t in req.topic_data
        ]
    )


HANDLER = Handler(
    ProduceRequest,
    ProduceResponse,
    handle,
    failure,
    decode=decode_produce_request,
    encode=encode_produce_response,
)
