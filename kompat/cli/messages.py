"""Records as people write them: lines, lines with a key, lines of JSON. Pure."""

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

# What a record asks of the broker, by the name in JSON: the header, and how its value is understood.
_ASKED: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "delay": ("kompat-delay-ms", duration),
    "deliverAt": ("kompat-deliver-at", moment),
    "priority": ("kompat-priority", str),
    "ttl": ("kompat-ttl-ms", duration),
    "messageId": ("kompat-msg-id", str),
    "scheduleId": ("kompat-schedule-id", str),
}
# What `consume --format json` tells of a record and a new one does not have.
_PASSED_OVER: Final = frozenset({"topic", "offset", "size"})
_KNOWN: Final = frozenset(
    {"key", "keyEncoding", "value", "encoding", "headers", "partition", "timestamp", *_ASKED, *_PASSED_OVER}
)


class NoMessage(Exception):  # noqa: N818 - it names what a line is not
    """Why a line cannot be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None


def asked(**named: Any) -> Headers:
    """The headers for what is asked of the broker; None is not asked."""
    return [(_ASKED[name][0], str(value).encode()) for name, value in named.items() if value is not None]


def from_line(line: bytes, separator: bytes | None, defaults: Message) -> Message:
    """A line of text; with a separator, the key stands before it."""
    if separator is None:
        return replace(defaults, value=line)
    key, found, value = line.partition(separator)
    if not found:
        raise NoMessage(f"it has no separator {separator.decode()!r}")
    return replace(defaults, key=key, value=value)


def from_json(line: bytes, defaults: Message) -> Message:
    """An object as `consume --format json` prints it and as the HTTP door takes it."""
    try:
        given = json.loads(line)
    except ValueError as error:
        raise NoMessage(f"it is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise NoMessage("it is no JSON object")
    unknown = given.keys() - _KNOWN
    if unknown:
        raise NoMessage(f"it has unknown fields: {', '.join(sorted(unknown))}")
    return Message(
        key=_bytes(given, "key", "keyEncoding") if "key" in given else defaults.key,
        value=_bytes(given, "value", "encoding"),
        headers=[*defaults.headers, *_headers(given.get("headers") or []), *_asked_in(given)],
        partition=_number(given, "partition", defaults.partition),
        timestamp=_number(given, "timestamp", defaults.timestamp),
    )


def _bytes(given: Mapping[str, Any], name: str, encoding: str) -> bytes | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str):  # JSON within JSON is meant as it stands
        return json.dumps(value, ensure_ascii=False).encode()
    kind = given.get(encoding)
    if kind is None:
        return value.encode()
    if kind != "base64":
        raise NoMessage(f"{encoding} {kind!r} is unknown: base64 is known")
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
            raise NoMessage('headers are an object, or a list of {"name": …, "value": …}')
        value = _bytes(each, "value", "encoding")
        found.append((each["name"], value if value is not None else b""))
    return found


def _asked_in(given: Mapping[str, Any]) -> Headers:
    found = []
    for name, (header, read) in _ASKED.items():
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
