"""The headers with which a record requests something. Pure.

Values are UTF-8 text, names are case-sensitive. If a header occurs twice, the last one counts; that includes different
headers for the same thing, such as a delay and a time. An invalid value is an error that names the header and the value;
but for names that applications use for purposes of their own, it is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kompat.protocol.records import HeaderNames
from kompat.types import Millis

DELAY = "kompat-delay-ms"
DELIVER_AT = "kompat-deliver-at"
SCHEDULE_ID = "kompat-schedule-id"
PRIORITY = "kompat-priority"
MESSAGE_ID = "kompat-msg-id"
TIME_TO_LIVE = "kompat-ttl-ms"
TRACE = "kompat-trace"
TRACEPARENT = "traceparent"  # W3C Trace Context; never rewritten
ORIGINAL_OFFSET = "kompat-original-offset"
ORIGINAL_TIMESTAMP = "kompat-original-timestamp"

DEFAULT_PRIORITY: Final = 4
MAX_ID_BYTES: Final = 1024
_PRIORITIES: Final = {"critical": 9, "high": 7, "normal": 4, "low": 2, "background": 0}
_SHOWN: Final = 64  # characters of a wrong value
_SECOND: Final = 1000
_DIGITS: Final = 18  # more than any number of milliseconds needs
# Compiled on first use: most brokers never see one.
_RFC3339 = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)"

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class RecordOptions:
    """What one record requests by its headers."""

    delay: int | None = None  # ms from the time of the append
    deliver_at: Millis | None = None
    delivery: str = ""  # the header that set it, and its value
    schedule_id: str | None = None
    priority: int | None = None
    message_id: str | None = None
    time_to_live: int | None = None  # ms
    trace: bool = False
    traceparent: bytes | None = None  # as it was sent: it may be meant for other systems

    def due(self, now: Millis) -> Millis | None:
        """When it is to be delivered; None: at once."""
        due = self.deliver_at if self.delay is None else Millis(now + self.delay)
        return due if due is not None and due > now else None


class HeaderError(ValueError):
    """A header's value is invalid; the text is for the producer."""


def parse(headers: Headers) -> RecordOptions | None:
    """The options in the headers, None if there are none. Raises HeaderError."""
    options: RecordOptions | None = None
    for name, value in headers:
        take = _TAKERS.get(name)
        if take is not None:
            options = options or RecordOptions()
            take(options, name, _text(name, value))
        elif name == TRACEPARENT:
            options = options or RecordOptions()
            options.traceparent = value
        elif name in _FOREIGN_PRIORITIES:
            options = options or RecordOptions()
            options.priority = _known_priority((value or b"").decode(errors="replace"), options.priority)
    return options


def priority_of(headers: Headers) -> int:
    """The priority of a record whose headers are valid."""
    found: int | None = None
    for name, value in headers:
        if name in _ALL_PRIORITIES:
            found = _known_priority((value or b"").decode(errors="replace"), found)
    return DEFAULT_PRIORITY if found is None else found


def _text(name: str, value: bytes | None) -> str:
    if value is None:
        raise HeaderError(f"{name} has no value")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise HeaderError(f"{name}: {value[:_SHOWN]!r} is not UTF-8") from None


def _wrong(name: str, text: str, expected: str) -> HeaderError:
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return HeaderError(f"{name}: {shown!r} is not {expected}")


def _integer(name: str, text: str, expected: str) -> int:
    if not _is_number(text):
        raise _wrong(name, text, expected)
    return int(text)


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= _DIGITS


def _delay(options: RecordOptions, name: str, text: str) -> None:
    options.delay, options.deliver_at = _integer(name, text, "a number of milliseconds"), None
    options.delivery = f"{name}: {text!r}"


def _delay_seconds(options: RecordOptions, name: str, text: str) -> None:
    options.delay, options.deliver_at = _integer(name, text, "a number of seconds") * _SECOND, None
    options.delivery = f"{name}: {text!r}"


def _deliver_at(options: RecordOptions, name: str, text: str) -> None:
    expected = "a time: milliseconds since 1970, or as in 2030-01-31T12:00:00Z"
    if not _is_number(text) and re.fullmatch(_RFC3339, text, re.ASCII):
        try:
            options.deliver_at = Millis(round(datetime.fromisoformat(_normal(text)).timestamp() * 1000))
        except (ValueError, OverflowError):
            raise _wrong(name, text, expected) from None
    else:
        options.deliver_at = Millis(_integer(name, text, expected))
    options.delay = None
    options.delivery = f"{name}: {text!r}"


def _normal(text: str) -> str:
    """With microseconds and capital letters, as datetime requires."""
    return re.sub(r"(\.\d{6})\d+", r"\1", text.upper())


def _deliver_at_millis(options: RecordOptions, name: str, text: str) -> None:
    options.deliver_at, options.delay = Millis(_integer(name, text, "a time in milliseconds since 1970")), None
    options.delivery = f"{name}: {text!r}"


def _id(name: str, text: str) -> str:
    if not text or len(text.encode()) > MAX_ID_BYTES:
        raise _wrong(name, text, f"an id of 1 to {MAX_ID_BYTES} bytes")
    return text


def _schedule_id(options: RecordOptions, name: str, text: str) -> None:
    options.schedule_id = _id(name, text)


def _message_id(options: RecordOptions, name: str, text: str) -> None:
    options.message_id = _id(name, text)


def _priority(options: RecordOptions, name: str, text: str) -> None:
    options.priority = _known_priority(text, None)
    if options.priority is None:
        raise _wrong(name, text, f"a priority: 0 to 9, or {', '.join(_PRIORITIES)}")


def _known_priority(text: str, otherwise: int | None) -> int | None:
    if len(text) == 1 and "0" <= text <= "9":
        return int(text)
    return _PRIORITIES.get(text, otherwise)


def _time_to_live(options: RecordOptions, name: str, text: str) -> None:
    options.time_to_live = _integer(name, text, "a number of milliseconds")


def _trace(options: RecordOptions, name: str, text: str) -> None:
    if text not in ("0", "1"):
        raise _wrong(name, text, "1 or 0")
    options.trace = text == "1"


_TAKERS: Final[dict[str, Callable[[RecordOptions, str, str], None]]] = {
    DELAY: _delay,
    "x-delay": _delay,  # RabbitMQ
    "TIMER_DELAY_MS": _delay,  # RocketMQ, as the next two
    "TIMER_DELAY_SEC": _delay_seconds,
    DELIVER_AT: _deliver_at,
    "TIMER_DELIVER_MS": _deliver_at_millis,
    SCHEDULE_ID: _schedule_id,
    PRIORITY: _priority,
    MESSAGE_ID: _message_id,
    "Nats-Msg-Id": _message_id,
    TIME_TO_LIVE: _time_to_live,
    TRACE: _trace,
}
# Applications have headers of these names with other meanings: a value that is no priority is ignored.
_FOREIGN_PRIORITIES: Final = ("priority", "x-priority")
_ALL_PRIORITIES: Final = (PRIORITY, *_FOREIGN_PRIORITIES)

_ALL: Final = (*_TAKERS, *_FOREIGN_PRIORITIES, TRACEPARENT)
NAMES: Final = HeaderNames([name.encode() for name in _ALL], [TRACEPARENT.encode()])


def bits(*names: str) -> int:
    """The bits of these names among NAMES, as in `Facts.named`."""
    return sum(1 << _ALL.index(name) for name in names)


STRICT: Final = bits(*_TAKERS)  # those whose values have to be validated in any case
CONTEXT: Final = bits(TRACEPARENT)
PRIORITIES: Final = bits(*_ALL_PRIORITIES)
