"""Parses records of text: lines, lines with a key, lines of JSON. Pure."""

from __future__ import annotations

import argparse
import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kompat.cli.arguments import duration, moment

Headers = list[tuple[str, bytes]]

# The fields of kompat's extensions by their name in JSON: the header, and how to parse the value.
_EXTENSION_FIELDS: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "delay": ("kompat-delay-ms", duration),
    "deliverAt": ("kompat-deliver-at", moment),
    "priority": ("kompat-priority", str),
    "ttl": ("kompat-ttl-ms", duration),
    "messageId": ("kompat-msg-id", str),
    "scheduleId": ("kompat-schedule-id", str),
}
# Fields of `consume --format json` that a new record does not have.
_PASSED_OVER: Final = frozenset({"topic", "offset", "size"})
_KNOWN: Final = frozenset(
    {"key", "keyEncoding", "value", "encoding", "headers", "partition", "timestamp", *_EXTENSION_FIELDS, *_PASSED_OVER}
)


class NoMessage(Exception):  # noqa: N818 - it names what a line is not
    """A line cannot be sent. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None


def extension_headers(**named: Any) -> Headers:
    """The headers of kompat's extensions, without those that are None."""
    return [(_EXTENSION_FIELDS[name][0], str(value).encode()) for name, value in named.items() if value is not None]


def from_line(line: bytes, separator: bytes | None, defaults: Message) -> Message:
    """A record from a line of text; with a separator, the key is before it."""
    if separator is None:
        return replace(defaults, value=line)
    key, found, value = line.partition(separator)
    if not found:
        raise NoMessage(f"the line does not contain the separator {separator.decode()!r}")
    return replace(defaults, key=key, value=value)


def from_json(line: bytes, defaults: Message) -> Message:
    """A record from a JSON object in the format of `consume --format json` and of the HTTP port."""
    try:
        given = json.loads(line)
    except ValueError as error:
        raise NoMessage(f"the line is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise NoMessage("the line is not a JSON object")
    unknown = given.keys() - _KNOWN
    if unknown:
        raise NoMessage(f"the object has unknown fields: {', '.join(sorted(unknown))}")
    return Message(
        key=_bytes(given, "key", "keyEncoding") if "key" in given else defaults.key,
        value=_bytes(given, "value", "encoding"),
        headers=[*defaults.headers, *_headers(given.get("headers") or []), *_extension_headers_of(given)],
        partition=_number(given, "partition", defaults.partition),
        timestamp=_number(given, "timestamp", defaults.timestamp),
    )


def _bytes(given: Mapping[str, Any], name: str, encoding: str) -> bytes | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str):  # a JSON value is sent as JSON
        return json.dumps(value, ensure_ascii=False).encode()
    kind = given.get(encoding)
    if kind is None:
        return value.encode()
    if kind != "base64":
        raise NoMessage(f"{encoding} {kind!r} is unknown: only base64 is supported")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise NoMessage(f"{name} is not base64: {error}") from None


def _headers(given: Sequence[Any] | Mapping[str, Any]) -> Headers:
    if isinstance(given, Mapping):
        return [(str(name), str(value).encode()) for name, value in given.items()]
    found = []
    for each in given:
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
            raise NoMessage('headers must be an object or a list of {"name": …, "value": …}')
        value = _bytes(each, "value", "encoding")
        found.append((each["name"], value if value is not None else b""))
    return found


def _extension_headers_of(given: Mapping[str, Any]) -> Headers:
    found = []
    for name, (header, read) in _EXTENSION_FIELDS.items():
        if given.get(name) is not None:
            try:
                found.append((header, str(read(str(given[name]))).encode()))
            except argparse.ArgumentTypeError as error:
                raise NoMessage(f"{name}: {error}") from None
    return found


def _number(given: Mapping[str, Any], name: str, default: int | None) -> int | None:
    value = given.get(name, default)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise NoMessage(f"{name} {value!r} is not a number")
    return value
