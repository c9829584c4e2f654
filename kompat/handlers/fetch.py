"""Fetch: whole record batches from partitions, at once or as soon as `min_bytes` are there.

Reads are served from memory where they can; other batches are read from the store in a worker thread, so that a lagging consumer
does not stall others. A request that has to wait is woken by its partitions, or by `max_wait_ms`. A consumer gets at least one
batch, however large, so that it can always make progress. One that has reached the log's end may get records that an
extension holds back (log/fetch_listener.py). Followers do not fetch here: replicas are kept by Raft. Consumers may read from
any replica (fetch_replicas.py).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias
from uuid import UUID

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.handlers.support.fetch_replicas import replicas
from kompat.handlers.support.fetch_rights import allowed
from kompat.handlers.support.fetch_sessions import NO_SESSION, STEP, Plan, Wanted
from kompat.handlers.support.leadership import wrong_broker
from kompat.log.empty_batches import as_control, is_empty_batch
from kompat.log.long_poll import LongPoll, Steps
from kompat.log.partition import Isolation, Partition, ReadResult
from kompat.protocol.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    PartitionResponse,
    TopicResponse,
    decode_fetch_request,
    decode_fetch_request_in_steps,
    encode_fetch_response,
    encode_fetch_response_in_steps,
)
from kompat.types import ZERO_UUID, Offset

UNKNOWN = -1
ISOLATIONS = {int(level): level for level in Isolation}
CONSUMER = -1  # as a replica's id
Topics: TypeAlias = dict[tuple[str, UUID], TopicResponse]

MAX_REQUEST_BYTES = 1024 * 1024  # some 30,000 partitions


def handle(ctx: Context, req: FetchRequest) -> Promise[FetchResponse] | FetchResponse:
    quotas = ctx.services.quotas
    max_bytes = min(req.max_bytes, ctx.services.fetch_max_bytes)
    if quotas.is_enabled:
        max_bytes = min(max_bytes, quotas.most_fetched(ctx.principal, ctx.client_id) or max_bytes)
    fetch = DelayedFetch(ctx, req, max_bytes).start()
    return fetch.result() if fetch.is_done else fetch


@dataclass(slots=True)
class _Found:
    """The outcome for one requested partition: a read, or something that completes the request at once (an error, a diverging epoch)."""

    wanted: Wanted
    partition: Partition | KafkaError
    read: ReadResult | None = None
    error: KafkaError | None = None
    diverging: EpochEndOffset | None = None
    preferred: int = UNKNOWN  # a replica that it had better be read from
    ready: int = 0  # bytes that are worth an answer


class _Look:
    """One look at all partitions."""

    __slots__ = ("found", "is_enough", "is_first", "ready", "size")

    def __init__(self, is_first: bool, is_last: bool) -> None:
        self.is_first = is_first
        self.is_enough = is_last  # for an answer
        self.found: list[_Found] = []
        self.size = 0  # bytes that were read
        self.ready = 0  # of these, bytes that are worth an answer


class DelayedFetch(LongPoll[FetchResponse]):
    """One request, from the first look at memory to the answer; where it is for many partitions, some at a time."""

    __slots__ = (
        "_ctx",
        "_granted",
        "_isolation",
        "_max_bytes",
        "_min_bytes",
        "_partitions",
        "_plan",
        "_ready",
        "_replicas",
        "_req",
        "_waiting",
    )

    def __init__(self, ctx: Context, req: FetchRequest, max_bytes: int) -> None:
        super().__init__(req.max_wait_ms)
        self._ctx = ctx
        self._req = req
        self._isolation = _isolation(req.isolation_level)
        self._min_bytes = min(req.min_bytes, max_bytes)
        self._max_bytes = max_bytes
        self._granted = 0  # of the room for answers from the store
        self._replicas = replicas(ctx, req.rack_id)
        self._plan: Plan | None = None
        self._partitions: list[Partition | KafkaError] = []
        self._waiting: dict[Partition, tuple[Wanted, int]] = {}  # with the bytes of each that are worth an answer
        self._ready = 0  # bytes of all of them

    def try_complete(self) -> Steps | None:
        plan = self._plan
        look = _Look(plan is None, self.is_expired)
        if plan is None and not self._req.is_long:
            services = self._ctx.services
            self._plan = plan = services.fetch_sessions.plan(self._req, self._ctx.api_version, services.clock.now())
        if plan is None or len(plan.wanted) > STEP:
            return self._in_steps(look)
        if look.is_first:
            self._partitions = self._find(plan.wanted)
        cold = self._read_memory(plan, look, STEP)
        if cold is not None:
            return self._in_steps(look, cold)
        if self._is_enough(plan, look):
            topics: Topics = {}
            for each in look.found:
                self._answer(plan, each, topics)
            self.resolve(self._response(plan, topics))
        else:
            for each in look.found:
                self._watch(each)
        return None

    def _in_steps(self, look: _Look, cold: _Found | None = None) -> Steps:
        """As `try_complete`, where there are many partitions, or `cold` has to be read from the store."""
        services = self._ctx.services
        plan = self._plan
        if plan is None:
            now = services.clock.now()
            plan = yield from services.fetch_sessions.plan_in_steps(self._req, self._ctx.api_version, now)
            self._plan = plan
        for begin in range(len(self._partitions), len(plan.wanted), STEP):
            self._partitions += self._find(plan.wanted[begin : begin + STEP])
            yield None
        try:
            while cold is not None or len(look.found) < len(plan.wanted):
                if cold is not None:
                    yield from self._read_store(plan, look, cold)
                cold = self._read_memory(plan, look, STEP)
                yield None
            if self._is_enough(plan, look):
                yield from self._answer_in_steps(plan, look.found)
        finally:
            if self._granted:
                services.fetch_room.give_back(self._granted)
                self._granted = 0

    def _find(self, wanted: list[Wanted]) -> list[Partition | KafkaError]:
        found = [_partition(self._ctx, each) for each in wanted]
        if self._ctx.services.authorizer.is_enabled:
            found = allowed(self._ctx, self._req, wanted, found)
        return found

    def _is_enough(self, plan: Plan, look: _Look) -> bool:
        return look.is_enough or look.ready >= self._min_bytes or not plan.wanted

    # -- reading ---------------------------------------------------------------------------------------------------
    def _read_memory(self, plan: Plan, look: _Look, most: int) -> _Found | None:
        """Read up to `most` more partitions. The last of them is returned, if it has to be read from the store."""
        is_long = len(plan.wanted) > STEP
        begin = len(look.found)
        for index in range(begin, min(begin + most, len(plan.wanted))):
            partition = self._partitions[index]
            each = _Found(plan.wanted[index], partition)
            look.found.append(each)
            if not self._read(each, look):
                return each
            if is_long and isinstance(partition, Partition):  # it may grow before the last one is read
                self._watch(each) if look.is_first else self.unwatch(partition)
        return None

    def _read(self, found: _Found, look: _Look) -> bool:
        """False: it has to be read from the store."""
        wanted, size = found.wanted, look.size
        try:
            partition = _checked(found.partition, wanted)
            if self._replicas is not None:
                self._replicas.check(partition, wanted)
                found.preferred = self._replicas.preferred(partition, wanted)
            if wanted.last_fetched_epoch != UNKNOWN:
                found.diverging = _diverging(partition, wanted)
            if found.preferred != UNKNOWN or found.diverging is not None:
                look.is_enough = True
                return True
            limit = min(wanted.max_bytes, (self._granted or self._max_bytes) - size)
            read = partition.read(Offset(wanted.fetch_offset), limit, self._isolation, minimum_one=size == 0)
        except KafkaError as error:
            found.error = error
            look.is_enough = True
            return True
        if read is None:
            return False
        self._count(found, partition, read, look)
        return True

    def _read_store(self, plan: Plan, look: _Look, found: _Found) -> Steps:
        if not self._granted:
            most = min(self._max_bytes, sum(wanted.max_bytes for wanted in plan.wanted))
            self._granted = self._ctx.services.fetch_room.reserve(most)
        look.is_enough = True
        partition: Partition = found.partition  # type: ignore[assignment]  # it was looked at
        offset, limit = Offset(found.wanted.fetch_offset), min(found.wanted.max_bytes, self._granted - look.size)
        try:
            read = yield partial(partition.read_stored, offset, limit, self._isolation, minimum_one=look.size == 0)
        except KafkaError as error:
            found.error = error
        else:
            self._count(found, partition, read, look)

    def _count(self, found: _Found, partition: Partition, read: ReadResult, look: _Look) -> None:
        found.read = read
        found.ready = size = read.size
        look.size += size
        if partition.fetch_listener is not None and look.is_first:
            found.ready = self._notify_listener(found, partition, read)
        look.ready += found.ready

    # -- waiting ---------------------------------------------------------------------------------------------------
    def _notify_listener(self, found: _Found, partition: Partition, read: ReadResult) -> int:
        """Notify the fetch listener, if the log's end was reached and that is too little. Returns the bytes that count for `min_bytes`."""
        listener = partition.fetch_listener
        if listener is None or not partition.is_led or self._req.replica_id != CONSUMER or self.has_notified(listener):
            return read.size
        is_hollow = not read.buffers or is_empty_batch(read.buffers[0])
        is_too_little = read.next_offset >= partition.high_watermark and (is_hollow or read.size < self._min_bytes)
        is_coming = is_too_little and self.notify(listener, found.wanted.max_bytes)
        return 0 if is_coming and is_hollow else read.size

    def _watch(self, found: _Found) -> None:
        if isinstance(found.partition, Partition):
            self._waiting[found.partition] = found.wanted, found.ready
            self._ready += found.ready
            self.watch(found.partition)

    def changed(self, partition: Partition) -> None:
        wanted, before = self._waiting[partition]
        ready = min(wanted.max_bytes, self._available(partition, wanted))
        self._waiting[partition] = wanted, ready
        self._ready += ready - before
        if self._ready >= self._min_bytes:
            self.complete_now()

    def _available(self, partition: Partition, wanted: Wanted) -> int:
        """Nothing, if it is empty batches, and records are on their way behind them."""
        available = partition.available(Offset(wanted.fetch_offset), self._isolation)
        if not available or partition.fetch_listener is None:
            return available
        try:
            read = partition.read(Offset(wanted.fetch_offset), wanted.max_bytes, self._isolation)
        except KafkaError:
            return available
        if read is None or not read.buffers or not is_empty_batch(read.buffers[0]):
            return available
        return 0 if self.notify(partition.fetch_listener, wanted.max_bytes) else available

    # -- answering -------------------------------------------------------------------------------------------------
    def _answer(self, plan: Plan, found: _Found, topics: Topics) -> None:
        wanted, read = found.wanted, found.read
        size = 0
        high_watermark = log_start_offset = UNKNOWN
        if read is not None:
            size, high_watermark, log_start_offset = read.size, read.high_watermark, read.log_start_offset
            if size:
                self._note(found, read)
        if not plan.must_answer(wanted, size, high_watermark, log_start_offset, failed=read is None):
            return
        key = (wanted.topic, wanted.topic_id)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = TopicResponse(wanted.topic, wanted.topic_id, [])
        response = _partition_response(found)
        topic.partitions.append(response)
        if self._replicas is not None and found.error is not None:
            self._replicas.point_out(wanted, response)

    def _response(self, plan: Plan, topics: Topics) -> FetchResponse:
        response = FetchResponse(0, ErrorCode.NONE, plan.session_id, list(topics.values()))
        if self._replicas is not None:
            self._replicas.tell_endpoints(response)
        return response

    def _answer_in_steps(self, plan: Plan, found: list[_Found]) -> Generator[None, None, None]:
        topics: Topics = {}
        found.reverse()
        while found:
            self._answer(plan, found.pop(), topics)  # frees them one by one: all at once would hold the event loop
            if not len(found) % STEP:
                yield
        response = self._response(plan, topics)
        if len(plan.wanted) > STEP:
            response.encoded = yield from encode_fetch_response_in_steps(self._ctx.api_version, response)
        self.resolve(response)

    def _note(self, found: _Found, read: ReadResult) -> None:
        """These records are on their way to the consumer."""
        partition: Partition = found.partition  # type: ignore[assignment]  # it was read
        offset = found.wanted.fetch_offset
        partition.meter.bytes_out += read.size
        partition.meter.records_out += read.next_offset - offset
        tracer = self._ctx.services.tracer
        if tracer.used:
            tracer.fetched(partition, offset, read.next_offset, self._ctx.client_id)


def _isolation(level: int) -> Isolation:
    isolation = ISOLATIONS.get(level)
    if isolation is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"isolation level {level} does not exist")
    return isolation


def _partition(ctx: Context, wanted: Wanted) -> Partition | KafkaError:
    logs = ctx.services.logs
    if wanted.topic_id is ZERO_UUID or wanted.topic_id == ZERO_UUID:  # as the decoder has it, without a comparison
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
    epoch, end = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
        return EpochEndOffset(epoch, end)
    return None


def _partition_response(found: _Found) -> PartitionResponse:
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
        is_hollow = read.buffers and is_empty_batch(read.buffers[0])
        response.records = [as_control(read.buffers[0])] if is_hollow else read.buffers
        if read.aborted is not None:
            response.aborted_transactions = [AbortedTransaction(a.producer_id, a.first_offset) for a in read.aborted]
    return response


def failure(_: FetchRequest, error: KafkaError) -> FetchResponse:
    return FetchResponse(0, error.code, NO_SESSION, [])


HANDLER = Handler(
    FetchRequest,
    FetchResponse,
    handle,
    failure,
    max_bytes=MAX_REQUEST_BYTES,
    decode=decode_fetch_request,
    decode_in_steps=decode_fetch_request_in_steps,
    encode=encode_fetch_response,
)
