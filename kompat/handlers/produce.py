"""Produce (key 0, v3-13): append record batches to partitions, answer when they are committed.

Advertised from v0, because old librdkafka turns compression off where the range does not include 0; v0-2 are answered
UNSUPPORTED_VERSION. acks=0 gets no answer, and an error then closes the connection: it is the only way to tell.
Every partition is judged by itself; the answer waits for all of them. acks=all waits for a majority of the replicas, at most
for the request's time-out; acks=1 for this broker's log. Who came to the wrong broker is told the right one (v10+).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kompat.errors import ErrorCode, KafkaError, ProtocolError
from kompat.handlers import leadership
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.later import Later
from kompat.handlers.produce_order import refusal
from kompat.handlers.transactional_produce import Guard, admit, is_part
from kompat.log.commit import Pending
from kompat.log.intake import Costly, Prepared
from kompat.log.partition import Appended, Origin, Partition
from kompat.log.validation import InvalidRecordsError
from kompat.protocol.produce import (
    PartitionData,
    PartitionResponse,
    ProduceRequest,
    ProduceResponse,
    RecordError,
    TopicData,
    TopicResponse,
    decode_produce_request,
    encode_produce_response,
)
from kompat.protocol.records import HEADER_SIZE, read_header
from kompat.security.acls import Kind, Operation
from kompat.types import ZERO_UUID

VALID_ACKS = (-1, 0, 1)
ALL = -1
UNKNOWN_OFFSET = -1
# In a batch's header, so that these need not be read from it twice: the lower byte of its attributes.
ATTRIBUTES_AT = 22
TRANSACTIONAL, CODEC, ZSTD = 0x10, 0x07, 4
FIRST_VERSION_WITH_ZSTD = 7

Refused = Mapping[tuple[str, UUID, int], KafkaError]  # by topic, its id, and partition
NOBODY: Refused = {}


def handle(
    ctx: Context, req: ProduceRequest
) -> Awaitable[ProduceResponse | None] | Later[ProduceResponse | None] | ProduceResponse | None:
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
        data.records is not None and len(data.records) > ATTRIBUTES_AT and data.records[ATTRIBUTES_AT] & TRANSACTIONAL
        for topic in req.topic_data
        for data in topic.partition_data
    )


def _is_admitted(ctx: Context, req: ProduceRequest, transactional_id: str, denied: Refused) -> bool:
    """Nearly always: nobody has to be asked, so its batches go to the log at once, and others may follow them there."""
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
    """A transaction's batches, once the coordinator knows of their partitions."""
    async with ctx.services.produce_turns.of(transactional_id):
        refused = dict(denied)
        guards: dict[tuple[str, UUID, int], Guard] = {}
        for topic in req.topic_data:
            for data in topic.partition_data:
                key = topic.name, topic.topic_id, data.index
                try:
                    if data.records is not None and key not in denied:
                        partition = _partition(ctx, topic, data.index)
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
    return await reply if isinstance(reply, Later) else reply


async def _admitted(ctx: Context, transactional_id: str, partition: Partition, records: memoryview) -> Guard | None:
    try:
        return await admit(ctx, transactional_id, partition, records)
    except KafkaError as error:
        raise refusal(partition, records, error) from error


def _append_all(
    ctx: Context, req: ProduceRequest, refused: Refused
) -> Coroutine[Any, Any, ProduceResponse | None] | Later[ProduceResponse | None] | ProduceResponse | None:
    reply = _Reply(ctx, req)
    put_off: list[_PutOff] = []
    for topic in req.topic_data:
        responses: list[PartitionResponse] = []
        for data in topic.partition_data:
            refusal = refused.get((topic.name, topic.topic_id, data.index)) if refused else None
            try:
                responses.append(
                    reply.refused(topic, data.index, refusal) if refusal else _append(ctx, req, topic, data, reply)
                )
            except Costly as costly:
                put_off.append(_PutOff(topic, data, costly, _guard(ctx, topic, data), responses, len(responses)))
                responses.append(
                    PartitionResponse(data.index, ErrorCode.NONE, UNKNOWN_OFFSET, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
                )
        reply.response.responses.append(TopicResponse(topic.name, topic.topic_id, responses))
    return _append_later(ctx, req, reply, put_off) if put_off else reply.when_committed()


class _PutOff(NamedTuple):
    """A batch that is looked at in steps before it is appended."""

    topic: TopicData
    data: PartitionData
    costly: Costly
    guard: Guard | None
    responses: list[PartitionResponse]  # where its own belongs
    place: int


def _guard(ctx: Context, topic: TopicData, data: PartitionData) -> Guard | None:
    """Its transaction may end meanwhile."""
    header = read_header(data.records or b"")
    return Guard(_partition(ctx, topic, data.index), header.producer_id) if header.is_transactional else None


async def _append_later(
    ctx: Context, req: ProduceRequest, reply: _Reply, put_off: Sequence[_PutOff]
) -> ProduceResponse | None:
    for each in put_off:
        prepared = await each.costly.prepare()
        each.responses[each.place] = _append(ctx, req, each.topic, each.data, reply, prepared, each.guard)
    outcome = reply.when_committed()
    return await outcome if isinstance(outcome, Later) else outcome


def _append(
    ctx: Context,
    req: ProduceRequest,
    topic: TopicData,
    data: PartitionData,
    reply: _Reply,
    prepared: Prepared | None = None,
    guard: Guard | None = None,
) -> PartitionResponse:
    """Raises Costly, unless it is `prepared` for that."""
    log_start, partition = UNKNOWN_OFFSET, None
    try:
        records = _checked(ctx, req, data)
        partition = _partition(ctx, topic, data.index)
        log_start = partition.log_start_offset
        replica = partition.replica if req.acks == ALL else None
        if replica is not None:
            replica.require_in_sync()
        if guard is not None:
            guard.check()
        appended = partition.append(records, prepared=prepared, is_patient=True)
        if replica is not None:
            appended.pending = replica.spread(appended.pending)
        meter = partition.meter
        meter.bytes_in += len(records)
        meter.records_in += appended.last_offset - appended.base_offset + 1
        if ctx.services.tracer.newest is not None:
            ctx.services.tracer.sent_by(partition, ctx.client_id)
        return reply.started(topic, partition, records, appended)
    except KafkaError as error:
        told = error if partition is None else refusal(partition, data.records, error)
        return reply.refused(topic, data.index, told, log_start)


def _checked(ctx: Context, req: ProduceRequest, data: PartitionData) -> memoryview:
    """What can be refused without looking for the partition."""
    records = data.records
    if req.acks not in VALID_ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "the partition has no records")
    if len(records) > ATTRIBUTES_AT:
        attributes = records[ATTRIBUTES_AT]
        if attributes & TRANSACTIONAL and req.transactional_id is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if attributes & CODEC == ZSTD and ctx.api_version < FIRST_VERSION_WITH_ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7")
    return records


def _partition(ctx: Context, topic: TopicData, index: int) -> Partition:
    logs = ctx.services.logs
    by_name = topic.topic_id == ZERO_UUID
    partition = logs.find(topic.name, index) if by_name else logs.find_by_id(topic.topic_id, index)
    if partition is not None:
        return partition
    cluster = ctx.services.cluster
    known = cluster.topic(topic.name) if by_name else cluster.topic_by_id(topic.topic_id)
    if not by_name and known is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    raise leadership.wrong_broker(ctx, known, index)


class _UnderWay(NamedTuple):
    """An append whose end the answer waits for."""

    topic: TopicData
    response: PartitionResponse
    pending: Pending
    partition: Partition
    header: memoryview  # of its batch


class _Reply(Later[ProduceResponse | None]):
    """The answer to one request, due when every append under way has ended, or when time is up; with acks=0 there is none.

    That is waited for all the same: what comes behind it on the connection is to find its records.
    """

    __slots__ = ("_acks", "_ctx", "_is_replicated", "_seconds", "_timer", "_under_way", "_waiting", "response")

    def __init__(self, ctx: Context, req: ProduceRequest) -> None:
        super().__init__()
        self.response = ProduceResponse([])
        self._ctx = ctx
        self._acks = req.acks
        self._seconds = req.timeout_ms / 1000
        self._under_way: list[_UnderWay] = []
        self._waiting = 0
        self._is_replicated = False  # it waits for others, and so may have to wait for ever
        self._timer: asyncio.TimerHandle | None = None

    def started(
        self, topic: TopicData, partition: Partition, records: memoryview, appended: Appended
    ) -> PartitionResponse:
        response = PartitionResponse(
            partition.index,
            ErrorCode.NONE,
            appended.base_offset,
            appended.log_append_time,
            appended.log_start_offset,
        )
        pending = appended.written
        if self._acks == ALL and appended.pending is not pending:
            pending = appended.pending
            self._is_replicated = True
        self._under_way.append(_UnderWay(topic, response, pending, partition, records[:HEADER_SIZE]))
        return response

    def refused(
        self, topic: TopicData, index: int, error: KafkaError, log_start_offset: int = UNKNOWN_OFFSET
    ) -> PartitionResponse:
        response = _refused(index, error, log_start_offset)
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._point_out(topic, response)
        return response

    def _point_out(self, topic: TopicData, response: PartitionResponse) -> None:
        leader = leadership.current_leader(self._ctx, topic.name, topic.topic_id, response.index)
        if leader is not None:
            response.current_leader = leader
            known = {each.node_id for each in self.response.node_endpoints}
            if leader.leader_id not in known:
                found = leadership.endpoints(self._ctx, [leader])
                self.response.node_endpoints = [*self.response.node_endpoints, *found]

    def when_committed(self) -> Later[ProduceResponse | None] | ProduceResponse | None:
        # Partitions with one replica share the turn's Pending, so there is mostly one to wait for.
        pendings = {id(each.pending): each.pending for each in self._under_way if not each.pending.is_done}
        if not pendings:
            return self._settled()
        self._waiting = len(pendings)
        for pending in pendings.values():
            pending.add_done_callback(self._one_ended)
        if self._is_replicated and not self.is_done:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._time_out)
        return self

    def _one_ended(self, _: Pending) -> None:
        self._waiting -= 1
        if self._waiting == 0 and not self.is_done:
            if self._timer is not None:
                self._timer.cancel()
            self._settle()

    def _time_out(self) -> None:
        """What is under way may still be committed; nobody waits for it any more."""
        if not self.is_done:
            self._settle()

    def _settle(self) -> None:
        try:
            response = self._settled()
        except ProtocolError as error:
            self.set_exception(error)
        else:
            self.set_result(response)

    def _settled(self) -> ProduceResponse | None:
        """Raises ProtocolError."""
        for topic, response, pending, partition, header in self._under_way:
            if not pending.is_done:
                response.refuse(ErrorCode.REQUEST_TIMED_OUT, "")
            elif pending.error is not None:
                refusal(partition, header, pending.error)  # so that those behind it come after it
                response.refuse(pending.error.code, pending.error.message)
                if pending.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    self._point_out(topic, response)
        if self._acks == 0:
            _close_on_error(self.response)
            return None
        return self.response


def _refused(index: int, error: KafkaError, log_start_offset: int = UNKNOWN_OFFSET) -> PartitionResponse:
    response = PartitionResponse(index, error.code, UNKNOWN_OFFSET, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
    response.error_message = error.message or None
    if isinstance(error, InvalidRecordsError):
        response.log_start_offset = log_start_offset
        response.record_errors = [RecordError(e.batch_index, e.message) for e in error.record_errors]
    return response


def _close_on_error(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                raise ProtocolError(
                    f"produce with acks=0 to {topic.name}-{partition.index} failed: {ErrorCode(partition.error_code).name}"
                )


def failure(req: ProduceRequest, error: KafkaError) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicResponse(t.name, t.topic_id, [_refused(p.index, error) for p in t.partition_data])
            for t in req.topic_data
        ]
    )


API = Api(
    key=0,
    name="Produce",
    versions=Versions(3, 13),
    advertised=Versions(0, 13),
    request=ProduceRequest,
    response=ProduceResponse,
    handle=handle,
    failure=failure,
    decode=decode_produce_request,
    encode=encode_produce_response,
)
