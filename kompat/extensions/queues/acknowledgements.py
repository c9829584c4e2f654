"""Records that acknowledge deliveries of a queue topic: `kompat-ack` is the type, `kompat-ack-id` the delivery. Pure.

With `release`, `kompat-delay-ms` is the time before the record is delivered again; with `renew`, it is the lock duration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kompat.errors import KafkaError
from kompat.extensions.headers import DELAY, HeaderError
from kompat.protocol.records import Record
from kompat.share import receipts
from kompat.share.machine.claims import RecordAcknowledgement
from kompat.share.machine.messages import AckType
from kompat.share.receipts import Receipt

ACK: Final = "kompat-ack"
ACK_ID: Final = "kompat-ack-id"
DELIVERY_COUNT: Final = "kompat-delivery-count"
OWN: Final = (ACK, ACK_ID, DELIVERY_COUNT)

_KINDS: Final = {
    "accept": AckType.ACCEPT,
    "release": AckType.RELEASE,
    "reject": AckType.REJECT,
    "renew": AckType.RENEW,
}
_SHOWN: Final = 64
LONGEST_MS: Final = 24 * 3_600_000  # of a delay or a lock


class Acknowledgement(NamedTuple):
    receipt: Receipt
    acknowledgement: RecordAcknowledgement


def parse(record: Record, group_id: str) -> Acknowledgement:
    """HeaderError if the record is not an acknowledgement, or not one for this queue."""
    found = {name: value for name, value in record.headers if name in (ACK, ACK_ID, DELAY)}
    if ACK not in found:
        raise HeaderError(
            f"this is a queue topic: a record in it acknowledges a delivery, and so has the headers {ACK} and {ACK_ID}"
        )
    kind = _KINDS.get(_text(ACK, found[ACK]))
    if kind is None:
        raise HeaderError(f"{ACK}: {_shown(found[ACK])} is not one of {', '.join(_KINDS)}")
    if ACK_ID not in found:
        raise HeaderError(f"{ACK} without {ACK_ID}: which delivery?")
    try:
        receipt = receipts.decode(_text(ACK_ID, found[ACK_ID]))
    except KafkaError as error:
        raise HeaderError(f"{ACK_ID}: {error.message}") from None
    if receipt.group_id != group_id:
        raise HeaderError(f"{ACK_ID}: the delivery was one of {receipt.group_id}, not of {group_id}")
    return Acknowledgement(receipt, receipt.acknowledgement(kind, _wait(kind, found)))


def _wait(kind: AckType, found: Mapping[str, bytes | None]) -> int | None:
    if DELAY not in found:
        return None
    text = _text(DELAY, found[DELAY])
    if kind not in (AckType.RELEASE, AckType.RENEW):
        raise HeaderError(f"{DELAY} goes with release and renew only")
    if not (text.isascii() and text.isdecimal()) or int(text) > LONGEST_MS:
        raise HeaderError(f"{DELAY}: {_shown(found[DELAY])} is not a number of milliseconds up to {LONGEST_MS}")
    return int(text)


def delivered(record: Record, receipt: Receipt) -> Record:
    """A record as it is in a queue topic's log, but for its offset."""
    headers = [each for each in record.headers if each[0] not in OWN]
    headers += [(ACK_ID, receipt.encode().encode()), (DELIVERY_COUNT, b"%d" % receipt.deliveries)]
    return Record(0, record.timestamp, record.key, record.value, headers)


def _text(name: str, value: bytes | None) -> str:
    if value is None:
        raise HeaderError(f"{name} has no value")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise HeaderError(f"{name}: {_shown(value)} is not UTF-8") from None


def _shown(value: bytes | None) -> str:
    shown = (value or b"").decode(errors="replace")
    return repr(shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…")
