"""Decodes path, query and body of a request. Errors are problems that name the place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_origin
from urllib.parse import parse_qsl, unquote

import msgspec

from kompat.admin.problems import Problem, invalid
from kompat.admin.route import Route
from kompat.common.slices import Slice

NUMBERS = {
    "partition": 2**31 - 1,
    "broker": 2**31 - 1,
    "offset": 2**63 - 1,
}  # path parameters, and their largest values
MOST_PARAMETERS = 100
LARGEST_NUMBER = 2**63 - 1
SHORT_BODY = 128 * 1024
MOST_VALUES = 65_536
STEP_BYTES = 128 * 1024  # that are scanned between two checks of the slice


def decode_path(raw: Mapping[str, str]) -> dict[str, Any]:
    """Decode path parameters, in which an escaped character may be a slash."""
    found: dict[str, Any] = {}
    for name, escaped in raw.items():
        try:
            text = unquote(escaped, errors="strict")
        except UnicodeDecodeError:
            raise invalid(f"{name} in the path is not UTF-8. Percent-encode its UTF-8 bytes.") from None
        found[name] = _number(name, text, NUMBERS[name]) if name in NUMBERS else text
    return found


def _number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most):
        raise invalid(f"{name} in the path must be a number from 0 to {most}, not {text[:40]!r}.")
    return int(text)


def decode_query(shape: Any, raw: bytes) -> Any:
    given: dict[str, Any] = {}
    lists = _list_fields(shape)
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except (UnicodeDecodeError, ValueError) as error:
        raise invalid(f"The query string cannot be read: {error}.") from None
    for name, value in pairs:
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise invalid(f"Parameter {name} is given twice.")
        else:
            given[name] = value
    if shape is None:
        if given:
            raise invalid(f"There is no parameter {next(iter(given))}. The route has no parameters.")
        return None
    try:
        return msgspec.convert(given, shape, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise invalid(f"Parameters: {_reason(error)}.") from None


def _list_fields(shape: Any) -> set[str]:
    if shape is None:
        return set()
    return {field.encode_name for field in msgspec.structs.fields(shape) if get_origin(field.type) in (list, tuple)}


def decode_body(route: Route, media_type: str, raw: bytes) -> Any:
    """Decode the body. Raises a problem with status 400 or 415."""
    if route.body is None:
        return None
    if not raw and route.is_body_optional:
        return None
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type not in route.takes and "*/*" not in route.takes:
        raise Problem(415, f"The Content-Type of the body must be {' or '.join(route.takes)}.")
    if route.body is bytes:
        return raw
    try:
        return msgspec.json.decode(raw, type=route.body)
    except msgspec.ValidationError as error:
        raise invalid(f"Body: {_reason(error)}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise invalid("The body is nested too deeply.") from None


async def check_values(raw: bytes) -> None:
    """Raises a problem if a body has too many values: their number, not their length, decides how long parsing holds the event loop.

    It counts commas and opening brackets outside of strings. Long bodies with few values, such as a large message, are scanned fast."""
    if len(raw) <= SHORT_BODY:
        return
    count, place, current = 0, 0, Slice()
    while place < len(raw):
        if current.is_over:
            await current.pause()
        quote = raw.find(b'"', place, place + STEP_BYTES)
        outside = quote if quote >= 0 else place + STEP_BYTES
        for mark in b",", b"[", b"{":
            count += raw.count(mark, place, outside)
        if count > MOST_VALUES:
            raise invalid(f"The body has more than {MOST_VALUES} values. Send fewer at a time.")
        place = await _after_string(raw, quote, current) if quote >= 0 else outside


async def _after_string(raw: bytes, quote: int, current: Slice) -> int:
    """The position after the string that begins at `quote`."""
    place = quote + 1
    while True:
        if current.is_over:
            await current.pause()
        end = raw.find(b'"', place)
        if end < 0:
            return len(raw)
        part = raw[place:end]
        place = end + 1
        if (len(part) - len(part.rstrip(b"\\"))) % 2 == 0:
            return place


def _reason(error: Exception) -> str:
    """msgspec's reason, in terms of JSON: `Expected `int`, got `str` - at `$.partitions``."""
    return str(error).rstrip(".") or "nested too deeply"
