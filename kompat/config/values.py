"""Converts texts of settings to typed values and back, as Kafka does."""

import re
from enum import IntEnum
from typing import NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The types, with the numbers of DescribeConfigs."""

    BOOL = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS = {ConfigType.INT: 31, ConfigType.SHORT: 15, ConfigType.LONG: 63}
# Compiled on first use, because most starts need few of them.
_INTEGER = r"[+-]?[0-9]+"
_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_THROTTLED = r"[0-9]+:[0-9]+"
_DURATION = r"P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?"


def parse(kind: ConfigType, text: str) -> Value:
    """The typed value. Raises ValueError with Kafka's reason if the text is not of the type."""
    text = text.strip()
    if kind in _BITS:
        return _integer(kind, text)
    if kind is ConfigType.BOOL:
        if text.lower() not in ("true", "false"):
            raise ValueError("Expected value to be either true or false")
        return text.lower() == "true"
    if kind is ConfigType.DOUBLE:
        if not re.fullmatch(_DECIMAL, text):
            raise ValueError("Not a number of type DOUBLE")
        return float(text)
    if kind is ConfigType.LIST:
        return tuple(part.strip() for part in text.split(",")) if text else ()
    return text


def _integer(kind: ConfigType, text: str) -> int:
    limit = 1 << _BITS[kind]
    if len(text) > 20 or not re.fullmatch(_INTEGER, text) or not -limit <= int(text) < limit:
        raise ValueError(f"Not a number of type {kind.name}")
    return int(text)


def to_text(value: Value) -> str | None:
    """The text that DescribeConfigs shows."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return repr(value).replace("e+", "E") if isinstance(value, float) else str(value)


class Objection(NamedTuple):
    shown: str  # the invalid part of the value
    reason: str


def objection(name: str, check: str, value: Value) -> Objection | None:
    """Why a value fails a check: `low..high`, `one|other`, `~case|insensitive` or a named rule. None if it passes."""
    if check == "throttle":
        return _throttled(name, value)
    if check == "reset":
        return _offset_reset(value)
    if check == "addresses":
        return _not_addresses(name, str(value))
    if ".." in check and not isinstance(value, str | tuple):
        return _outside(check, value)
    return _not_among(check, value)


def _outside(check: str, value: bool | float | None) -> Objection | None:
    limits, _, other = check.partition(" or ")
    low, _, high = limits.partition("..")
    number = value or 0
    if other and number != int(other) and not int(low) <= number <= int(high):
        return Objection(str(value), f"Value must be between {low} and {high} or equal to {other}")
    if not other and low and number < float(low):
        return Objection(str(value), f"Value must be at least {low}")
    if not other and high and number > float(high):
        return Objection(str(value), f"Value must be no more than {high}")
    return None


def _not_among(check: str, value: Value) -> Objection | None:
    ignore_case = check.startswith("~")
    choices = check.removeprefix("~").split("|")
    for part in value if isinstance(value, tuple) else (str(value),):
        if (part.lower() if ignore_case else part) not in choices:
            return Objection(part, f"String must be one of: {', '.join(choices)}")
    return None


def _throttled(name: str, value: Value) -> Objection | None:
    parts = value if isinstance(value, tuple) else ()
    if parts == ("*",) or all(re.fullmatch(_THROTTLED, part) for part in parts):
        return None
    return Objection(f"[{', '.join(parts)}]", f"{name} must be * or partition:broker pairs, separated by commas")


def numbers_by_address(text: str) -> dict[str, int]:
    """Parse `10.0.0.1:100,[::1]:5`. Raises ValueError, also for host names, whose addresses may change."""
    from ipaddress import ip_address  # few brokers need it

    found = {}
    for each in filter(None, map(str.strip, text.split(","))):
        address, _, number = each.rpartition(":")
        if not re.fullmatch("[0-9]{1,10}", number):
            raise ValueError(each)
        found[str(ip_address(address.strip("[]")))] = int(number)
    return found


def _not_addresses(name: str, value: str) -> Objection | None:
    try:
        numbers_by_address(value)
    except ValueError:
        return Objection(value, f"{name} must be address:number pairs, separated by commas")
    return None


def _offset_reset(value: Value) -> Objection | None:
    kind, colon, duration = str(value).lower().partition(":")
    if kind in ("latest", "earliest") and not colon:
        return None
    if kind == "by_duration" and re.fullmatch(_DURATION, duration.upper()):
        return None
    return Objection(str(value), "Must be latest, earliest or by_duration:PnDTnHnMn.nS")
