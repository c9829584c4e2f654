"""Receipts: each stands for one delivery of one record, to a client that is not a member of a group.

With its receipt a client can acknowledge the record. The receipt names the record and the lock, so it stays valid without a
connection, and even after the lock has expired or the broker was restarted, unless the record was delivered again. Clients
treat it as an opaque text.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is one
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from kompat.errors import ErrorCode, KafkaError
from kompat.share.machine.claims import RecordAcknowledgement
from kompat.share.machine.messages import AckType
from kompat.share.machine.settings import RECEIPT_PREFIX
from kompat.types import LogId

_VERSION = 1
_FIXED = Struct(">BI16siqhi8s")  # version, checksum of what follows, topic, partition, offset, deliveries, epoch, lock
_CHECKED_FROM = 5
_MOST_DELIVERIES = 0x7FFF
_SHOWN = 64  # characters of an invalid receipt in a message
LONGEST = 1024  # characters: a group id is usually no longer than a topic's name


class Receipt(NamedTuple):
    group_id: str
    partition: LogId
    offset: int
    deliveries: int  # this one included
    state_epoch: int  # of the group's state: receipts from before a reset are invalid
    lock: bytes  # 8 bytes that identify the acquisition

    @property
    def member(self) -> str:
        """The member id that holds the lock."""
        return member_of(self.lock)

    def acknowledgement(self, kind: AckType, wait_ms: int | None = None) -> RecordAcknowledgement:
        return RecordAcknowledgement(self.offset, self.member, self.deliveries, kind, wait_ms)

    def encode(self) -> str:
        body = _FIXED.pack(
            _VERSION,
            0,
            self.partition.topic_id.bytes,
            self.partition.partition,
            self.offset,
            min(self.deliveries, _MOST_DELIVERIES),
            self.state_epoch,
            self.lock,
        )
        body = body[_CHECKED_FROM:] + self.group_id.encode()
        whole = bytes([_VERSION]) + crc32(body).to_bytes(4, "big") + body
        return urlsafe_b64encode(whole).decode().rstrip("=")


def member_of(lock: bytes) -> str:
    return RECEIPT_PREFIX + lock.hex()


def decode(text: str) -> Receipt:
    """Raises KafkaError if the text is not a receipt."""
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)) if len(text) <= LONGEST else b""
        version, checksum, topic_id, partition, offset, deliveries, epoch, lock = _FIXED.unpack_from(raw)
        if version != _VERSION or checksum != crc32(raw[_CHECKED_FROM:]):
            raise _none(text)
        group_id = raw[_FIXED.size :].decode()
    except (binascii.Error, ValueError, StructError):
        raise _none(text) from None
    return Receipt(group_id, LogId(UUID(bytes=topic_id), partition), offset, deliveries, epoch, lock)


def _none(text: str) -> KafkaError:
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return KafkaError(ErrorCode.INVALID_REQUEST, f"{shown!r} is not a receipt")
