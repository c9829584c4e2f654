"""Records as lines of text. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple


class Shown(NamedTuple):
    """A record, as commands print it."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def as_value(record: Shown) -> str:
    return _text(record.value)


def as_line(record: Shown) -> str:
    """For eyes: where it is, when it was, and what it says."""
    when = (
        datetime.fromtimestamp(record.timestamp / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    key = f"{_text(record.key)}: " if record.key is not None else ""
    headers = "".join(f" {name}={_text(value)}" for name, value in record.headers)
    return f"{record.topic}/{record.partition}/{record.offset} {when} {key}{_text(record.value)}{headers}"


def as_json(record: Shown) -> str:
    """For programs: bytes that are not UTF-8 are base64, and a field says so."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_bytes("key", record.key),
        **_bytes("value", record.value),
        "headers": [{"name": name, **_bytes("value", value)} for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False)


def _bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(value).decode(), f"{name}_encoding": "base64"}


def _text(value: bytes | None) -> str:
    return "null" if value is None else value.decode(errors="replace")


FORMATS: Final[dict[str, Callable[[Shown], str]]] = {"value": as_value, "line": as_line, "json": as_json}
