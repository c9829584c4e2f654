"""Decides whether a batch may be appended: it has to be valid in itself, and to follow what its producer has sent before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kompat.common.slices import aside
from kompat.config.topic import TopicConfig
from kompat.log import recovery, validation
from kompat.log.interceptor import Costly, Prepared
from kompat.log.local_log import LocalLog
from kompat.log.producers import PastBatch, Producers
from kompat.log.validation import Writable
from kompat.protocol.records import BatchHeader, ControlType, HeaderNames, TooLargeError, is_same
from kompat.types import Buffer, Millis, Offset


def validated(
    records: Writable, config: TopicConfig, now: Millis, names: HeaderNames, is_patient: bool
) -> tuple[Writable, BatchHeader, int]:
    """A client's batch as it is appended, and which of the header names its records have.

    Raises KafkaError; where the caller `is_patient`, also Costly.
    """
    batch, header = validation.single_batch(records)
    if not is_patient:
        return validation.prepare(batch, header, config, now, names)
    limit = validation.most_at_once(header, config)
    if len(batch) <= limit:
        try:
            return validation.prepare(batch, header, config, now, names, limit)
        except TooLargeError:
            pass
    prepare = partial(validation.prepare, batch, header, config, now, names)
    raise Costly(lambda: _aside(prepare))


async def _aside(prepare: Callable[[], tuple[Writable, BatchHeader, int]]) -> Prepared:
    return Prepared(*await aside(prepare), None)


def admit(log: LocalLog, batch: Buffer, header: BatchHeader) -> PastBatch | None:
    """Check what a numbering producer sends; the batch that it repeats, where it does. Raises KafkaError."""
    past = log.state.producers.admit(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
        transactional=header.is_transactional,
    )
    return None if past is None or _is_another(log, past, batch, header) else past


def _is_another(log: LocalLog, past: PastBatch, batch: Buffer, header: BatchHeader) -> bool:
    """Whether a batch only has the numbers of a past one, of a transaction that was aborted.

    librdkafka gives the numbers of batches that it has sent without an answer, and given up with their transaction, to those of
    the next one. To take these for sent again would lose them, for the past ones are aborted.
    """
    if not header.is_transactional:
        return False
    state = log.state
    producer = state.producers.get(header.producer_id)
    if producer is None or 0 <= producer.transaction_start <= past.base_offset:
        return False  # it is sent again in its transaction
    aborted = state.aborted.find(past.base_offset, Offset(past.base_offset + 1))
    if all(each.producer_id != header.producer_id for each in aborted):
        return False
    end = Offset(past.last_offset + 1)
    found = log.tail.read(past.base_offset, 1, end)
    buffers = found[0] if found is not None else log.store.read(past.base_offset, 1, end).buffers
    return bool(buffers) and not is_same(buffers[0], batch)


def admit_internal(producers: Producers, batch: Buffer, header: BatchHeader) -> tuple[ControlType, int] | None:
    """Check what the broker writes in a producer's name; the end marker, where it is one."""
    if header.producer_id < 0:
        return None
    marker = recovery.end_marker(batch) if header.is_control else None
    if marker is not None:
        producers.admit_marker(header.producer_id, header.producer_epoch, marker[1])
    else:
        producers.admit_unnumbered(header.producer_id, header.producer_epoch, transactional=header.is_transactional)
    return marker
