"""Group records as batches of `__consumer_offsets`.

Plain records of a decision share a batch. Offsets of a transaction are in a batch of their producer, and the transaction's
end is a control batch: so the log itself shows which offsets are pending.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from kompat.coordination.machine import Unreadable, decoded
from kompat.groups import record_codec
from kompat.groups.records import EndTransaction, GroupRecord, OffsetCommit
from kompat.protocol.records import ControlType, Record, build_batch, control_batch, control_type, iterate, read_header
from kompat.types import NO_PRODUCER, Millis, Offset, ProducerEpoch, ProducerId

_Kind = tuple[int, int] | None  # the producer of the record's batch


class GroupCodec:
    """Records as keys and values."""

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        if isinstance(record, EndTransaction):
            raise TypeError("the end of a transaction is a batch of its own")
        return record_codec.encode(record)

    def decode(self, key: bytes | None, value: bytes | None) -> GroupRecord | None:
        return None if key is None else record_codec.decode(key, value)


class GroupBatches:
    def __init__(self) -> None:
        self._codec = GroupCodec()

    def encode(self, records: Sequence[GroupRecord], now: Millis) -> Iterator[bytearray]:
        for producer, run in groupby(records, key=_producer_of):
            plain: list[GroupRecord] = []
            for record in run:
                if isinstance(record, EndTransaction):
                    yield self._marker(record, now)
                else:
                    plain.append(record)
            if plain:
                yield self._batch(plain, producer, now)

    def _batch(self, records: Sequence[GroupRecord], producer: _Kind, now: Millis) -> bytearray:
        producer_id, epoch = producer or (NO_PRODUCER, -1)
        return build_batch(
            [Record(index, now, *self._codec.encode(record)) for index, record in enumerate(records)],
            producer_id=producer_id,
            producer_epoch=epoch,
            is_transactional=producer is not None,
        )

    def _marker(self, record: EndTransaction, now: Millis) -> bytearray:
        return control_batch(
            ControlType.COMMIT if record.is_commit else ControlType.ABORT,
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            coordinator_epoch=record.coordinator_epoch,
            timestamp=now,
        )

    def decode(self, batch: memoryview) -> Iterator[tuple[Offset, GroupRecord | Unreadable]]:
        header = read_header(batch)
        producer = ProducerId(header.producer_id), ProducerEpoch(header.producer_epoch)
        if header.is_control:
            kind = control_type(batch)
            if kind is not None:
                is_commit = kind is ControlType.COMMIT
                marker = EndTransaction(producer_id=producer[0], producer_epoch=producer[1], is_commit=is_commit)
                yield Offset(header.base_offset), marker
            return
        owner = producer if header.is_transactional else (NO_PRODUCER, ProducerEpoch(-1))
        read = partial(record_codec.decode, producer_id=owner[0], producer_epoch=owner[1])
        for each in iterate(batch):
            if each.key is None:
                continue
            record = decoded(partial(read, each.key, each.value))
            if record is not None:
                yield Offset(each.offset), record


def _producer_of(record: GroupRecord) -> _Kind:
    if isinstance(record, EndTransaction) or (isinstance(record, OffsetCommit) and record.producer_id != NO_PRODUCER):
        return record.producer_id, record.producer_epoch
    return None
