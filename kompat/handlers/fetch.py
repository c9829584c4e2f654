"""Fetch (key 1, v4-18): whole record batches from partitions, at once or as soon as `min_bytes` are there.

Reads come from memory where they can; what has to come from the store is read in a worker thread, so that a consumer
far behind stalls nobody. An answer that has to wait is woken by the partitions it asked for, or by `max_wait_ms`.
A consumer gets at least one batch, however large, so that it can always go on. One that has read all there is may
get what was held back for it (log/demand.py). Followers do not fetch here: replicas are kept by Raft. Consumers may read from
any replica (fetch_replicas.py).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.handlers.fetch_replicas import replicas
from kompat.handlers.fetch_rights import allowed
from kompat.handlers.fetch_sessions import NO_SESSION, Plan, Wanted
from kompat.handlers.later import Later
from kompat.handlers.leadership import wrong_broker
from kompat.log.demand import Demand
from kompat.log.partition import Isolation, Partition, ReadResult
from kompat.log.shells import as_control, is_shell
from kompat.protocol.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    PartitionResponse,
    TopicResponse,
    decode_fetch_request,
    encode_fetch_response,
)
from kompat.types import ZERO_UUID, Offset

UNKNOWN = -1
CONSUMER = -1  # as a replica's id
MAX_REQUEST_BYTES = 1024 * 1024  # some 30,000 partitions


def handle(ctx: Context, req: FetchRequest) -> Later[FetchResponse] | FetchResponse:
    services = ctx.services
    plan = services.fetch_sessions.plan(req, ctx.api_version, services.clock.now())
    max_bytes = min(req.max_bytes, services.fetch_max_bytes)
    if services.quotas.is_enabled:
        max_bytes = min(max_bytes, services.quotas.most_fetched(ctx.principal, ctx.client_id) or max_bytes)
    return _Fetch(ctx, req, plan, max_bytes).start()


@dataclass(slots=True)
class _Found:
    """What came of one wanted partition: a read, or the reason why there is none."""

    wanted: Wanted
    read: ReadResult | None = None
    error: KafkaError | None = None
    diverging: EpochEndOffset | None = None
    preferred: int = UNKNOWN  # a replica that it had better be read from


class _Fetch(Later[FetchResponse]):
    """One request, from the first look at memory to the answer."""

    __slots__ = (
        "_asked",
        "_client_id",
        "_isolation",
        "_max_bytes",
        "_may_ask",
        "_min_bytes",
        "_partitions",
        "_plan",
        "_replicas",
        "_room",
        "_task",
        "_timer",
        "_tracer",
        "_wait",
    )

    def __init__(self, ctx: Context, req: FetchRequest, plan: Plan, max_bytes: int) -> None:
        super().__init__()
        self._plan = plan
        self._room = ctx.services.fetch_room
        self._client_id = ctx.client_id
        self._tracer = ctx.services.tracer
        self._isolation = _isolation(req.isolation_level)
        self._min_bytes = min(req.min_bytes, max_bytes)
        self._max_bytes = max_bytes
        self._wait = req.max_wait_ms / 1000
        self._partitions = [_partition(ctx, wanted) for wanted in plan.wanted]
        if ctx.services.authorizer.is_enabled:
            self._partitions = allowed(ctx, req, plan.wanted, self._partitions)
        self._replicas = replicas(ctx, req.rack_id)
        self._may_ask = req.replica_id == CONSUMER
        self._asked: list[Demand] = []  # that know of this request
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None  # held, or the loop may drop it

    def start(self) -> Later[FetchResponse] | FetchResponse:
        found, size, cold = self._read_memory()
        if cold:
            self._leave()
            self._read_store()
            return self
        if self._wait <= 0 or not found or size >= self._min_bytes or any(map(_is_urgent, found)):
            self._leave()
            return self._response(found)
        self._timer = asyncio.get_running_loop().call_later(self._wait, self._wake)
        for partition in self._watched():
            partition.watch(self._advanced)
        return self

    def _watched(self) -> list[Partition]:
        return [p for p in self._partitions if isinstance(p, Partition)]

    def _advanced(self, _: object) -> None:
        ready = 0
        for wanted, partition in zip(self._plan.wanted, self._partitions, strict=True):
            if isinstance(partition, Partition):
                available = partition.available(Offset(wanted.fetch_offset), self._isolation)
                if available and partition.demand is not None:
                    available = self._worth(partition.demand, partition, wanted, available)
                ready += min(wanted.max_bytes, available)
        if ready >= self._min_bytes:
            self._wake()

    def cancel(self) -> None:
        """The client is gone: wake up for nothing any more."""
        self._stop_waiting()
        if self._task is not None:
            self._task.cancel()

    def hurry(self) -> None:
        """The broker is about to stop: answer now what would be answered later."""
        if self._timer is not None:
            self._wake()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            for partition in self._watched():
                partition.unwatch(self._advanced)
            self._leave()

    # -- what is held back -----------------------------------------------------------------------------------------
    def _ask(self, demand: Demand, partition: Partition, read: ReadResult, wanted: Wanted) -> int:
        """Tell it, if this was all there is to read, and too little: the bytes that are worth an answer."""
        if partition.replica is not None and not partition.replica.is_leading:
            return read.size
        is_hollow = not read.buffers or is_shell(read.buffers[0])
        is_too_little = read.next_offset >= partition.high_watermark and (is_hollow or read.size < self._min_bytes)
        if not is_too_little or not self._may_ask or demand in self._asked:
            return read.size
        self._asked.append(demand)
        is_coming = demand.asked(self, wanted.max_bytes)
        return 0 if is_coming and is_hollow else read.size

    def _worth(self, demand: Demand, partition: Partition, wanted: Wanted, available: int) -> int:
        """Of what has become readable meanwhile: nothing, if it is empty batches, and records are on their way behind them."""
        try:
            read = partition.read(Offset(wanted.fetch_offset), wanted.max_bytes, self._isolation)
        except KafkaError:
            return available
        if read is None or not read.buffers or not is_shell(read.buffers[0]):
            return available
        if demand not in self._asked:
            self._asked.append(demand)
        return 0 if demand.asked(self, wanted.max_bytes) else available

    def _leave(self) -> None:
        for demand in self._asked:
            demand.left(self)
        self._asked.clear()

    def _wake(self) -> None:
        """Answer with what there is now."""
        self._stop_waiting()
        self._may_ask = False
        found, _, cold = self._read_memory()
        if cold:
            self._read_store()
        else:
            self.set_result(self._response(found))

    # -- reading ---------------------------------------------------------------------------------------------------
    def _read_memory(self) -> tuple[list[_Found], int, bool]:
        """All reads that memory can serve, and whether one of them could not be."""
        found: list[_Found] = []
        size = 0
        for wanted, partition in zip(self._plan.wanted, self._partitions, strict=True):
            result = _Found(wanted)
            try:
                live = self._checked(partition, wanted, result)
                if not _is_urgent(result):
                    result.read = live.read(
                        Offset(wanted.fetch_offset),
                        min(wanted.max_bytes, self._max_bytes - size),
                        self._isolation,
                        minimum_one=size == 0,
                    )
                    if result.read is None:
                        return found, size, True
                    if live.demand is None:
                        size += result.read.size
                    else:
                        size += self._ask(live.demand, live, result.read, wanted)
            except KafkaError as error:
                result.error = error
            found.append(result)
        return found, size, False

    def _read_store(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._read_all())

    async def _read_all(self) -> None:
        granted = self._room.reserve(min(self._max_bytes, sum(wanted.max_bytes for wanted in self._plan.wanted)))
        try:
            found = await self._read_within(granted)
        except Exception as error:  # noqa: BLE001 - the dispatcher answers whatever it is, and logs it
            self.set_exception(error)
        else:
            self.set_result(self._response(found))
        finally:
            self._room.give_back(granted)

    async def _read_within(self, room: int) -> list[_Found]:
        found, size = [], 0
        for wanted, partition in zip(self._plan.wanted, self._partitions, strict=True):
            result = await self._read_one(wanted, partition, room - size, minimum_one=size == 0)
            size += result.read.size if result.read is not None else 0
            found.append(result)
        return found

    async def _read_one(
        self, wanted: Wanted, partition: Partition | KafkaError, room: int, *, minimum_one: bool
    ) -> _Found:
        result = _Found(wanted)
        try:
            live = self._checked(partition, wanted, result)
            if not _is_urgent(result):
                offset, limit = Offset(wanted.fetch_offset), min(wanted.max_bytes, room)
                result.read = live.read(offset, limit, self._isolation, minimum_one=minimum_one)
                if result.read is None:
                    result.read = await live.read_stored(offset, limit, self._isolation, minimum_one=minimum_one)
                if live.demand is not None:
                    self._ask(live.demand, live, result.read, wanted)
                    self._leave()  # the answer does not wait for it
        except KafkaError as error:
            result.error = error
        return result

    def _checked(self, partition: Partition | KafkaError, wanted: Wanted, result: _Found) -> Partition:
        """The partition, where it can be read here; the result may say already where else to read, or from where on."""
        live = _checked(partition, wanted)
        if self._replicas is not None:
            self._replicas.check(live, wanted)
            result.preferred = self._replicas.preferred(live, wanted)
        result.diverging = _diverging(live, wanted)
        return live

    # -- answering -------------------------------------------------------------------------------------------------
    def _response(self, found: list[_Found]) -> FetchResponse:
        if self._tracer.used:
            self._trace(found)
        topics: dict[tuple[str, object], TopicResponse] = {}
        for f, log in zip(found, self._partitions, strict=False):
            partition = _answer(f)
            if f.read is not None and f.read.size and isinstance(log, Partition):
                log.meter.bytes_out += f.read.size
                log.meter.records_out += f.read.next_offset - f.wanted.fetch_offset
            if self._replicas is not None and f.error is not None:
                self._replicas.point_out(f.wanted, partition)
            told = self._plan.must_answer(
                f.wanted,
                size=f.read.size if f.read is not None else 0,
                high_watermark=partition.high_watermark,
                log_start_offset=partition.log_start_offset,
                failed=f.read is None,
            )
            if told:
                key = (f.wanted.topic, f.wanted.topic_id)
                topic = topics.get(key)
                if topic is None:
                    topic = topics[key] = TopicResponse(f.wanted.topic, f.wanted.topic_id, [])
                topic.partitions.append(partition)
        response = FetchResponse(0, ErrorCode.NONE, self._plan.session_id, list(topics.values()))
        if self._replicas is not None:
            self._replicas.tell_endpoints(response)
        return response

    def _trace(self, found: list[_Found]) -> None:
        """These records are on their way to the consumer."""
        for each, partition in zip(found, self._partitions, strict=False):
            if each.read is not None and each.read.size and isinstance(partition, Partition):
                self._tracer.fetched(partition, each.wanted.fetch_offset, each.read.next_offset, self._client_id)


def _is_urgent(found: _Found) -> bool:
    """There is something to tell that nobody has to wait for."""
    return found.error is not None or found.diverging is not None or found.preferred != UNKNOWN


def _isolation(level: int) -> Isolation:
    try:
        return Isolation(level)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"isolation level {level} does not exist") from None


def _partition(ctx: Context, wanted: Wanted) -> Partition | KafkaError:
    logs = ctx.services.logs
    if wanted.topic_id == ZERO_UUID:
        partition = logs.find(wanted.topic, wanted.index)
        return partition or wrong_broker(ctx, ctx.services.cluster.topic(wanted.topic), wanted.index)
    partition = logs.find_by_id(wanted.topic_id, wanted.index)
    if partition is not None:
        return partition
    known = ctx.services.cluster.topic_by_id(wanted.topic_id)
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID) if known is None else wrong_broker(ctx, known, wanted.index)


def _checked(partition: Partition | KafkaError, wanted: Wanted) -> Partition:
    if isinstance(partition, KafkaError):
        raise partition
    epoch = wanted.current_leader_epoch
    if epoch != UNKNOWN and epoch != partition.leader_epoch:
        behind = epoch < partition.leader_epoch
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH)
    return partition


def _diverging(partition: Partition, wanted: Wanted) -> EpochEndOffset | None:
    """Where the reader's log parts from this one, if it does (v12+)."""
    if wanted.last_fetched_epoch == UNKNOWN:
        return None
    epoch, end = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
        return EpochEndOffset(epoch, end)
    return None


def _answer(found: _Found) -> PartitionResponse:
    response = PartitionResponse(found.wanted.index, ErrorCode.NONE)
    response.diverging_epoch = found.diverging
    response.preferred_read_replica = found.preferred
    if found.error is not None:
        response.error_code = found.error.code
        response.aborted_transactions = ()
    elif found.read is not None:
        read = found.read
        response.high_watermark = read.high_watermark
        response.last_stable_offset = read.last_stable_offset
        response.log_start_offset = read.log_start_offset
        is_hollow = read.buffers and is_shell(read.buffers[0])
        response.records = [as_control(read.buffers[0])] if is_hollow else read.buffers
        if read.aborted is not None:
            response.aborted_transactions = [AbortedTransaction(a.producer_id, a.first_offset) for a in read.aborted]
    return response


def failure(_: FetchRequest, error: KafkaError) -> FetchResponse:
    return FetchResponse(0, error.code, NO_SESSION, [])


API = Api(
    key=1,
    name="Fetch",
    versions=Versions(4, 18),
    request=FetchRequest,
    response=FetchResponse,
    handle=handle,
    failure=failure,
    max_bytes=MAX_REQUEST_BYTES,
    decode=decode_fetch_request,
    encode=encode_fetch_response,
)
