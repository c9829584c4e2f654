"""Appends records of one log to another, which any broker may lead: each exactly once.

The append there and the note of it in the sender's own log cannot be atomic: if the broker ends in between, the record is
sent again. So each record leaves a mark, written together with it, until its sender has noted that it was sent.

| state's name | value |
| --- | --- |
| `l/m`, 16 bytes that identify the sender, the record's offset there | when it was written |
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from struct import Struct
from typing import ClassVar, Final, NamedTuple

from kompat.clock import Clock
from kompat.common.promise import all_of
from kompat.errors import DamagedData, ErrorCode, KafkaError, StorageError
from kompat.extensions import headers
from kompat.extensions.headers import HeaderError
from kompat.extensions.interceptor import USED, PartitionInterceptor
from kompat.extensions.priority.headers import Ranks
from kompat.extensions.states import Draft
from kompat.extensions.tracing.events import RecordTrace
from kompat.extensions.tracing.offsets import Entry
from kompat.extensions.tracing.tracer import Tracer
from kompat.log.interceptor import StateWrite
from kompat.log.packing import batch_limit, packed
from kompat.log.partition import Origin, Partition
from kompat.log.validation import codec_of
from kompat.protocol.records import Compression, Record, build_batch, iterate
from kompat.rpc.messages import LeaderRequest
from kompat.rpc.router import Router
from kompat.types import LogId, Millis, Offset

MARK: Final = b"l/m"
AFTER_MARKS: Final = b"l/n"
SENDER_SIZE: Final = 16
KEPT_MS: Final = 3_600_000  # marks of records whose sender has not finished
PRUNED_AT_ONCE: Final = 64
_NO_LIMIT: Final = 2**62
_NUMBER = Struct(">q")


class TraceOfRecord(NamedTuple):
    trace_id: bytes
    record: str
    parent_id: bytes
    message_id: str | None


class AppendOnce(LeaderRequest[dict[int, Offset]], frozen=True, kw_only=True):
    """The reply has the positions of the records that are new, by their offsets at the sender."""

    is_idempotent: ClassVar[bool] = True  # identifies it in the marks

    sender: bytes
    offsets: Sequence[int]
    batch: bytearray  # the records, in the same order
    codec: int  # the compression of most of them
    is_ranked: bool  # their priorities and times to live count
    traces: Mapping[int, TraceOfRecord]  # of those that are traced, by their offsets at the sender


class ForgetSent(LeaderRequest[None], frozen=True):
    """The records will not be sent again."""

    is_idempotent: ClassVar[bool] = True
    patience: ClassVar[float] = 0.0  # if it cannot be reached, the marks expire

    sender: bytes
    offsets: Sequence[int]


class ExactlyOnceForwarder:
    def __init__(self, rpc: Router, clock: Clock, tracer: Tracer) -> None:
        self._rpc = rpc
        self._clock = clock
        self._tracer = tracer
        self._turns: dict[LogId, asyncio.Lock] = {}
        rpc.serve(AppendOnce, self._append)
        rpc.serve(ForgetSent, self._forget)

    # -- sending ---------------------------------------------------------------------------------------------------
    async def send(
        self,
        source: Partition,
        target: LogId,
        sender: bytes,
        records: Mapping[int, Record],
        *,
        codec: int = Compression.NONE,
        is_ranked: bool = False,
    ) -> dict[int, Offset]:
        """Append records of a partition, given by their offsets there, to another log; returns the positions of those that are new.

        The target must always be the same: its marks show which records were sent before. Raises KafkaError.
        """
        request = AppendOnce(
            sender=sender,
            offsets=list(records),
            batch=build_batch([_at(each, place) for place, each in enumerate(records.values())]),
            codec=codec,
            is_ranked=is_ranked,
            traces={
                offset: TraceOfRecord(trace.trace_id, trace.record, trace.parent_id, trace.message_id)
                for offset, trace in self._tracer.found(source, records)
            },
        )
        return await self._rpc.call(target, request)

    async def finished(self, target: LogId, sender: bytes, offsets: Sequence[int]) -> None:
        """They will not be sent again."""
        with suppress(KafkaError):
            await self._rpc.call(target, ForgetSent(sender, offsets))

    # -- what the leader does --------------------------------------------------------------------------------------
    async def _append(self, target: Partition, request: AppendOnce) -> dict[int, Offset]:
        records = dict(zip(request.offsets, iterate(request.batch), strict=True))
        sender = request.sender
        async with self._turns.setdefault(target.log_id, asyncio.Lock()):
            if not target.is_led:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            now = self._clock.now()
            known = _marks(target, MARK + sender, MARK + sender + b"\xff" * _NUMBER.size, _NO_LIMIT)
            due = [offset for offset in records if _name(sender, offset) not in known]
            places: dict[int, Offset] = {}
            written = []
            for part in packed(due, records.__getitem__, batch_limit(target.config)):
                these = [_at(records[offset], place) for place, offset in enumerate(part)]
                writes: list[StateWrite] = [(_name(sender, offset), _NUMBER.pack(now)) for offset in part]
                writes += [*_old(target, now), *(_ranks_of(target, these, now) if request.is_ranked else ())]
                batch = build_batch(these, compression=codec_of(target.config, producers=request.codec))
                appended = target.append(memoryview(batch), origin=Origin.INTERNAL, writes=writes)
                written.append(appended.pending)
                new = {offset: Offset(appended.base_offset + place) for place, offset in enumerate(part)}
                traced: list[Entry] = [
                    (place, RecordTrace(*request.traces[offset]))
                    for offset, place in new.items()
                    if offset in request.traces
                ]
                self._tracer.go_on(target, traced, appended.pending)
                places |= new
            await all_of(written)
            return places

    async def _forget(self, target: Partition, request: ForgetSent) -> None:
        await target.write_states([(_name(request.sender, offset), None) for offset in request.offsets])


def sender_of(text: str) -> bytes:
    """The id of a sender."""
    return blake2b(text.encode(), digest_size=SENDER_SIZE).digest()


def _at(record: Record, place: int) -> Record:
    return Record(place, record.timestamp, record.key, record.value, record.headers)


def _name(sender: bytes, offset: int) -> bytes:
    return MARK + sender + _NUMBER.pack(offset)


def _old(target: Partition, now: Millis) -> list[StateWrite]:
    """Some of the marks that have expired."""
    found = _marks(target, MARK, AFTER_MARKS, PRUNED_AT_ONCE)
    return [(name, None) for name, written in found.items() if _NUMBER.unpack(written)[0] < now - KEPT_MS]


def _marks(target: Partition, start: bytes, end: bytes, limit: int) -> dict[bytes, bytes]:
    try:
        return dict(target.store.state_range(start, end, limit, _NO_LIMIT))
    except (StorageError, DamagedData) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _ranks_of(target: Partition, records: Sequence[Record], now: Millis) -> Sequence[StateWrite]:
    """What is known of priorities and times to live is known of records that go back, too: those that are appended next."""
    interceptor = target.interceptor
    if (
        not isinstance(interceptor, PartitionInterceptor)
        or interceptor.lanes.is_on
        or not target.config.kompat_extensions_enable
    ):
        return ()
    draft, ranks = Draft(interceptor.view), Ranks()
    for offset, record in enumerate(records, target.log_end_offset):
        with suppress(HeaderError):  # it was appended while extensions were off
            options = headers.parse(record.headers)
            if options is not None:
                ranks.add(Offset(offset), options, now)
    ranks.write(draft, now)
    writes = draft.writes()
    return [*writes, (USED, b"")] if writes else ()
