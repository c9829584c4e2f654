"""Formats of printed records. Pure."""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kompat.cli.output import printable, time_text

NULL: Final = "null"
FIELDS: Final = ("topic", "partition", "offset", "timestamp", "time", "key", "value", "headers")

Format = Callable[["Shown"], bytes]


class Shown(NamedTuple):
    """A record that commands print."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    @property
    def place(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


def as_value(record: Shown) -> bytes:
    """The bytes of the value."""
    return NULL.encode() if record.value is None else record.value


def as_keyed(record: Shown) -> bytes:
    """The bytes of key and value with a tab between them, for `produce --key-separator`."""
    return (NULL.encode() if record.key is None else record.key) + b"\t" + as_value(record)


def as_line(record: Shown) -> bytes:
    """A line for people: position, timestamp, key and value. Bytes that are not text are escaped."""
    key = f"{text(record.key)}: " if record.key is not None else ""
    headers = "".join(f" {printable(name)}={text(value)}" for name, value in record.headers)
    return f"{record.place} {time_text(record.timestamp)} {key}{text(record.value)}{headers}".encode()


def as_json(record: Shown) -> bytes:
    """JSON for programs: bytes that are not UTF-8 are base64, and a field says so."""
    return json.dumps(fields(record), ensure_ascii=False).encode()


def fields(record: Shown) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **in_json("key", record.key, "keyEncoding"),
        **in_json("value", record.value, "encoding"),
        "headers": [{"name": name, **in_json("value", value, "encoding")} for name, value in record.headers],
    }


def in_json(name: str, value: bytes | None, encoding: str) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(value).decode(), encoding: "base64"}


def text(value: bytes | None) -> str:
    return NULL if value is None else printable(value.decode(errors="backslashreplace"))


FORMATS: Final[dict[str, Format]] = {"value": as_value, "keyed": as_keyed, "line": as_line, "json": as_json}


def format_named(name: str) -> Format:
    """One of the formats above, or a template as in '{offset} {key} {value}'."""
    if name in FORMATS:
        return FORMATS[name]
    if "{" not in name:
        known = ", ".join(FORMATS)
        raise argparse.ArgumentTypeError(
            f"{name!r} is neither one of {known} nor a template such as '{{key}} {{value}}'"
        )
    template = name.replace("\\t", "\t").replace("\\n", "\n")

    def shown(record: Shown) -> bytes:
        values = {
            **record._asdict(),
            "time": time_text(record.timestamp),
            "key": text(record.key),
            "value": text(record.value),
            "headers": ",".join(f"{printable(each)}={text(value)}" for each, value in record.headers),
        }
        return template.format_map(values).encode()

    try:
        shown(Shown("", 0, 0, 0, None, None, ()))
    except (KeyError, IndexError, ValueError, AttributeError):
        raise argparse.ArgumentTypeError(f"{name!r}: a template uses {', '.join(FIELDS)} in braces") from None
    return shown
