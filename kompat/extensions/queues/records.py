"""Records that are acquired from a share partition one by one, each with its receipt, and the check of acknowledgements."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.records import Record, iterate, split_batches
from kompat.share import receipts
from kompat.share.machine import claims
from kompat.share.machine.claims import RecordAcknowledgement
from kompat.share.machine.messages import AckBatch, AckType
from kompat.share.partition import SharePartition
from kompat.share.receipts import Receipt
from kompat.share.requests import FetchedPartition
from kompat.types import LogId, Offset

LOCK_BYTES = 8


class Wanted(NamedTuple):
    """How much to acquire, and under which lock."""

    lock: bytes
    max_records: int
    max_bytes: int


class Part(NamedTuple):
    """Deliveries of one batch, before it is in a queue topic's log."""

    given: Sequence[tuple[Receipt, Record]]
    until: float | None  # when their locks expire, if another broker has them


class Given(NamedTuple):
    """A delivery in a queue topic's log that may still be in flight."""

    partition: LogId
    offset: int
    member: str
    floor: Offset  # in the queue's log: after the delivery before it
    until: float | None = None  # of another broker's record: when its lock expires, as far as known here


def new_lock() -> bytes:
    return secrets.token_bytes(LOCK_BYTES)


def take(live: SharePartition, fetched: FetchedPartition, lock: bytes) -> Iterator[tuple[Receipt, Record]]:
    """The acquired records, each with its receipt. Offsets without a record are acknowledged as gaps."""
    records = {
        record.offset: record
        for buffer in fetched.buffers
        for batch in split_batches(memoryview(buffer))
        for record in iterate(batch)
    }
    holes: list[int] = []
    for span in fetched.acquired:
        for offset in range(span.first, span.last + 1):
            record = records.get(offset)
            if record is None:
                holes.append(offset)
            else:
                yield (
                    Receipt(live.key.group_id, fetched.partition, offset, span.deliveries, live.state_epoch, lock),
                    record,
                )
    if holes:  # not awaited: if it is not written, the lock expires
        live.acknowledge(receipts.member_of(lock), [AckBatch(offset, offset, [AckType.GAP]) for offset in holes])


def check(live: SharePartition, receipt: Receipt, acknowledgement: RecordAcknowledgement) -> bool:
    """Whether the acknowledgement changes anything. Raises KafkaError if it is not valid."""
    if receipt.state_epoch != live.state_epoch:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"group {receipt.group_id} has begun anew since")
    if receipt.offset >= live.log.high_watermark:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{live.log.topic} has no offset {receipt.offset}")
    return claims.validate(live.machine, acknowledgement, live.settings)
