"""Messages as JSON: keys, values and headers as text or base64, and fields for kompat's extension headers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from kompat.admin.problems import invalid
from kompat.admin.shapes import Answer, Body, Encoding, Time, millis, raw_bytes
from kompat.admin.texts import raw_bytes_in_slices, shown_in_slices
from kompat.extensions import headers as extension_headers
from kompat.extensions.headers import HeaderError
from kompat.protocol.records import Record

UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST_DURATION: Final = 10**15  # ms
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,15}(?:\.\d{1,9})?(?:ms|s|m|h|d)){1,8}", re.ASCII)

Duration = (
    Annotated[int, Meta(ge=0, le=LONGEST_DURATION, description="milliseconds")]
    | Annotated[str, Meta(max_length=64, description="such as 30s, 1m30s, 2h or 500ms", examples=["30s"])]
)
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Id = Annotated[str, Meta(min_length=1, max_length=extension_headers.MAX_ID_BYTES)]
Priority = (
    Annotated[int, Meta(ge=0, le=9)] | Annotated[str, Meta(pattern="^(critical|high|normal|low|background|[0-9])$")]
)


class Header(Body):
    name: Annotated[str, Meta(max_length=32767)]
    value: str | None = None
    encoding: Encoding | UnsetType = UNSET


Headers = (
    Annotated[list[Header], Meta(max_length=1000)]
    | Annotated[dict[str, str | None], Meta(max_length=1000, description="names and texts")]
)


class NewMessage(Body):
    """`value: null` is a tombstone."""

    value: str | None
    encoding: Encoding | UnsetType = UNSET
    key: str | None = None
    key_encoding: Encoding | UnsetType = UNSET
    headers: Headers = ()  # type: ignore[assignment]
    partition: PartitionNumber | None = None
    timestamp: Time | None = None
    delay: Duration | None = None
    deliver_at: Time | None = None
    priority: Priority | None = None
    ttl: Duration | None = None
    message_id: Id | None = None
    schedule_id: Id | None = None
    trace: bool = False


class HeaderShape(Answer):
    name: str
    value: str | None
    encoding: Encoding | UnsetType = UNSET


class Message(Answer):
    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: list[HeaderShape]
    size: int  # of key, value and headers, in bytes
    key_encoding: Encoding | UnsetType = UNSET
    encoding: Encoding | UnsetType = UNSET


async def message(partition: int, record: Record) -> Message:
    return Message(
        partition=partition,
        offset=record.offset,
        timestamp=record.timestamp,
        size=size_of(record),
        **await content(record),
    )


async def content(record: Record) -> dict[str, Any]:
    """The fields that all shapes of a record have: key, value, headers, and their encodings."""
    key, key_encoding = await shown_in_slices(record.key)
    value, encoding = await shown_in_slices(record.value)
    headers = [await _header(name, raw) for name, raw in record.headers]
    return {"key": key, "key_encoding": key_encoding, "value": value, "encoding": encoding, "headers": headers}


async def _header(name: str, raw: bytes | None) -> HeaderShape:
    value, encoding = await shown_in_slices(raw)
    return HeaderShape(name=name, value=value, encoding=encoding)


def size_of(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


async def record_of(new: NewMessage, now: int) -> Record:
    """The record to produce. Raises a problem that says what to correct."""
    headers = [*await _given(new.headers), *_fields(new)]
    try:
        extension_headers.parse(headers)
    except HeaderError as error:
        raise invalid(f"{error}.") from None
    timestamp = now if new.timestamp is None else millis(new.timestamp, "timestamp")
    key = await raw_bytes_in_slices(new.key, new.key_encoding, "key")
    return Record(0, timestamp, key, await raw_bytes_in_slices(new.value, new.encoding, "value"), headers)


async def _given(headers: Headers) -> list[tuple[str, bytes | None]]:
    if isinstance(headers, dict):
        return [(name, raw_bytes(value, UNSET, f"header {name}")) for name, value in headers.items()]
    return [
        (each.name, await raw_bytes_in_slices(each.value, each.encoding, f"header {each.name}")) for each in headers
    ]


def _fields(new: NewMessage) -> Sequence[tuple[str, bytes]]:
    """The extension headers of fields, as any client can send them."""
    if new.delay is not None and new.deliver_at is not None:
        raise invalid("A message cannot have both a delay and a delivery time. Omit `delay` or `deliverAt`.")
    found: list[tuple[str, int | str]] = []
    if new.delay is not None:
        found.append((extension_headers.DELAY, duration(new.delay, "delay")))
    if new.deliver_at is not None:
        found.append((extension_headers.DELIVER_AT, millis(new.deliver_at, "deliverAt")))
    if new.priority is not None:
        found.append((extension_headers.PRIORITY, new.priority))
    if new.ttl is not None:
        found.append((extension_headers.TIME_TO_LIVE, duration(new.ttl, "ttl")))
    if new.message_id is not None:
        found.append((extension_headers.MESSAGE_ID, new.message_id))
    if new.schedule_id is not None:
        found.append((extension_headers.SCHEDULE_ID, new.schedule_id))
    if new.trace:
        found.append((extension_headers.TRACE, 1))
    return [(name, str(value).encode("utf-8", "surrogatepass")) for name, value in found]


def duration(given: int | str, field: str) -> int:
    """The milliseconds of `30s`, `1m30s`, `1.5h`, or of a number of milliseconds."""
    if isinstance(given, int):
        return given
    text = given.strip()
    if text.isascii() and text.isdigit():
        found = float(text)
    elif _DURATION.fullmatch(text):
        found = sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text))
    else:
        raise invalid(
            f"{field}: {given!r} is not a duration. Give milliseconds, or a duration such as 30s, 1m30s or 2h."
        )
    if found > LONGEST_DURATION:
        raise invalid(f"{field}: {given!r} is too long.")
    return round(found)
