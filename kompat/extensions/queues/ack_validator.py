"""Validates a batch of acknowledgements in a queue topic before any of them is applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.headers import HeaderError
from kompat.extensions.queues import acknowledgements as queue_acks
from kompat.extensions.queues.acknowledgements import Acknowledgement
from kompat.extensions.queues.records import check
from kompat.log.validation import InvalidRecordsError, RefusedRecord
from kompat.protocol.records import Record
from kompat.share.machine.messages import AckType
from kompat.share.partition import SharePartition
from kompat.types import LogId

MAX_ERRORS = 100  # of one batch


class Sources(Protocol):
    """The queue that they are sent to."""

    @property
    def group_id(self) -> str: ...

    def is_source(self, partition: LogId) -> bool: ...

    def is_here(self, partition: LogId) -> bool:
        """Whether this broker leads it."""
        ...


class AckValidator:
    """Accepts all of them, or none; acknowledgements of records of another leader are validated there."""

    def __init__(self, queue: Sources, live_now: Callable[[LogId], SharePartition]) -> None:
        self._queue = queue
        self._live_now = live_now
        self._found: dict[LogId, tuple[SharePartition, list[Acknowledgement]]] = {}
        self.remote: dict[LogId, list[Acknowledgement]] = {}
        self._kinds: dict[tuple[LogId, int], AckType] = {}
        self._errors: list[RefusedRecord] = []
        self._wrong = 0

    def look_at(self, record: Record) -> None:
        """The record's offset is its place in the batch."""
        try:
            self._validate(queue_acks.parse(record, self._queue.group_id))
        except HeaderError as error:
            self._wrong += 1
            if self._wrong <= MAX_ERRORS:
                self._errors.append(RefusedRecord(record.offset, str(error)))

    def _validate(self, ack: Acknowledgement) -> None:
        receipt, record_ack = ack
        if not self._queue.is_source(receipt.partition):
            raise HeaderError(f"{queue_acks.ACK_ID}: the delivery was of a topic that is not this queue's source")
        if self._kinds.setdefault((receipt.partition, record_ack.offset), record_ack.kind) is not record_ack.kind:
            raise HeaderError(f"{queue_acks.ACK_ID}: two things are said of one delivery")
        if not self._queue.is_here(receipt.partition):
            self.remote.setdefault(receipt.partition, []).append(ack)
            return
        live = self._live_now(receipt.partition)
        try:
            changes = check(live, receipt, record_ack)
        except KafkaError as error:
            raise HeaderError(f"{queue_acks.ACK}: {error.message}") from None
        if changes:
            self._found.setdefault(receipt.partition, (live, []))[1].append(ack)

    def end(self) -> Sequence[tuple[SharePartition, list[Acknowledgement]]]:
        """Those that are to be applied here. Raises KafkaError."""
        if self._errors:
            reason = f"{self._wrong} of the batch's records were refused: {self._errors[0].message}"
            raise InvalidRecordsError(ErrorCode.INVALID_RECORD, reason, self._errors)
        return list(self._found.values())
