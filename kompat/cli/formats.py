"""Records as lines. Pure."""

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
    """A record, as commands print it."""

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
    """Its bytes, as they are."""
    return NULL.encode() if record.value is None else record.value


def as_keyed(record: Shown) -> bytes:
    """Key and value, as they are, with a tab between them: what `produce --key-separator` takes."""
    return (NULL.encode() if record.key is None else record.key) + b"\t" + as_value(record)


def as_line(record: Shown) -> bytes:
    """For eyes: where it is, when it was, and what it says. Bytes that are no text do nothing to the terminal."""
    key = f"{text(record.key)}: " if record.key is not None else ""
    headers = "".join(f" {printable(name)}={text(value)}" for name, value in record.headers)
    return f"{record.place} {time_text(record.timestamp)} {key}{text(record.value)}{headers}".encode()


def as_json(record: Shown) -> bytes:
    """For programs: bytes that are not UTF-8 are base64, and a field says so."""
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
    """One of the above, or a template as in '{offset} {key} {value}'."""
    if name in FORMATS:
        return FORMATS[name]
    if "{" not in name:
        known = ", ".join(FORMATS)
        raise argparse.ArgumentTypeError(f"{name!r} is none of {known}, nor a template as in '{{key}} {{value}}'")
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
        raise argparse.ArgumentTypeError(f"{name!r}: a template has {', '.join(FIELDS)} in braces") from None
    return shown
