"""A batch of acknowledgements, sent to a queue topic: judged before any of them counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import queue_acks
from kompat.extensions.headers import HeaderError
from kompat.extensions.queue_acks import Acknowledgement
from kompat.extensions.queue_records import check
from kompat.log.validation import InvalidRecordsError, RefusedRecord
from kompat.protocol.records import Record
from kompat.share.live import LivePartition
from kompat.share.machine.messages import AckType
from kompat.share.requests import TopicIdPartition

ERRORS_TOLD = 100  # of one batch


class Sources(Protocol):
    """The queue that they are sent to."""

    @property
    def group_id(self) -> str: ...

    def is_source(self, partition: TopicIdPartition) -> bool: ...

    def is_here(self, partition: TopicIdPartition) -> bool:
        """Does this broker lead it?"""
        ...


class Judging:
    """All of them count, or none; what is said of records that another broker has, that one judges by itself."""

    def __init__(self, queue: Sources, live_now: Callable[[TopicIdPartition], LivePartition]) -> None:
        self._queue = queue
        self._live_now = live_now
        self._found: dict[TopicIdPartition, tuple[LivePartition, list[Acknowledgement]]] = {}
        self.far: dict[TopicIdPartition, list[Acknowledgement]] = {}
        self._kinds: dict[tuple[TopicIdPartition, int], AckType] = {}
        self._errors: list[RefusedRecord] = []
        self._wrong = 0

    def look_at(self, record: Record) -> None:
        """The record's offset is its place in the batch."""
        try:
            self._judge(queue_acks.parse(record, self._queue.group_id))
        except HeaderError as error:
            self._wrong += 1
            if self._wrong <= ERRORS_TOLD:
                self._errors.append(RefusedRecord(record.offset, str(error)))

    def _judge(self, word: Acknowledgement) -> None:
        receipt, said = word
        if not self._queue.is_source(receipt.partition):
            raise HeaderError(f"{queue_acks.ACK_ID}: the delivery was of a topic that is not this queue's source")
        if self._kinds.setdefault((receipt.partition, said.offset), said.kind) is not said.kind:
            raise HeaderError(f"{queue_acks.ACK_ID}: two things are said of one delivery")
        if not self._queue.is_here(receipt.partition):
            self.far.setdefault(receipt.partition, []).append(word)
            return
        live = self._live_now(receipt.partition)
        try:
            changes = check(live, receipt, said)
        except KafkaError as error:
            raise HeaderError(f"{queue_acks.ACK}: {error.message}") from None
        if changes:
            self._found.setdefault(receipt.partition, (live, []))[1].append(word)

    def end(self) -> Sequence[tuple[LivePartition, list[Acknowledgement]]]:
        """Those that are to be written here. Raises KafkaError."""
        if self._errors:
            reason = f"{self._wrong} of the batch's records were refused: {self._errors[0].message}"
            raise InvalidRecordsError(ErrorCode.INVALID_RECORD, reason, self._errors)
        return list(self._found.values())
