"""Tables for terminals, lines with tabs for pipes, JSON for programs. Pure, except Output, which prints."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TextIO

GAP: Final = "  "
WHOLE_PART: Final = 3  # the part of the terminal's width that a whole column gets before it runs over
NARROWEST: Final = 6  # a column is not cut below this
NOTHING: Final = "-"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    name: str  # key of the row's value
    shown: Callable[[Any], str] | None = None
    is_whole: bool = False  # never cut, because its end matters most: the last column may run over the terminal's edge


def text_of(value: Any) -> str:
    """The text of a cell."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or NOTHING
    return str(value)


def size_text(count: int | None) -> str:
    """A number of bytes, for people."""
    if count is None:
        return NOTHING
    amount = float(count)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


def time_text(timestamp: int | None) -> str:
    """A time in milliseconds since 1970, for people."""
    if timestamp is None or timestamp < 0:
        return NOTHING
    try:
        found = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(milliseconds: float) -> str:
    """A duration, for people."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if abs(milliseconds) >= size:
            return f"{milliseconds / size:.3g} {unit}" if unit != "s" else f"{milliseconds / size:.2f} s"
    return f"{milliseconds:.3g} ms"


# -- tables ------------------------------------------------------------------------------------------------------------
def table(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> list[str]:
    """The lines of a table: aligned and cut to the terminal's width, or with tabs if there is no terminal (None)."""
    cells = [[_cell(column, row) for column in columns] for row in rows]
    if width is None:
        return ["\t".join(line) for line in [[column.title for column in columns], *cells]]
    is_right = [_is_number(column, rows) for column in columns]
    widths = [
        max([width_of(column.title), *(width_of(line[at]) for line in cells)]) for at, column in enumerate(columns)
    ]
    if columns[-1].is_whole:
        widths[-1] = min(widths[-1], width // WHOLE_PART)
    widths = fit(widths, width - len(GAP) * (len(columns) - 1))
    if columns[-1].is_whole:
        widths[-1] = max(width_of(line[-1]) for line in [[columns[-1].title], *cells])
    lines = [[column.title for column in columns], *cells]
    return [
        GAP.join(
            _padded(cell, to, right=right) for cell, to, right in zip(line, widths, is_right, strict=True)
        ).rstrip()
        for line in lines
    ]


def fit(widths: Sequence[int], room: int) -> list[int]:
    """Shrink the widest columns until all fit, or all are at their minimum."""
    found = list(widths)
    while sum(found) > room:
        widest = max(range(len(found)), key=found.__getitem__)
        if found[widest] <= NARROWEST:
            break
        second = max([width for at, width in enumerate(found) if at != widest], default=0)
        excess = sum(found) - room
        found[widest] = max(NARROWEST, found[widest] - max(1, min(excess, found[widest] - second)))
    return found


def width_of(text: str) -> int:
    """The width in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, width: int) -> str:
    if width_of(text) <= width:
        return text
    kept = ""
    for char in text:
        if width_of(kept + char) > width - 1:
            break
        kept += char
    return kept + "…"


def printable(text: str) -> str:
    """The text with control characters escaped, which would break a line or control the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _cell(column: Column, row: Row) -> str:
    value = row.get(column.name)
    return printable(column.shown(value) if column.shown is not None else text_of(value))


def _is_number(column: Column, rows: Sequence[Row]) -> bool:
    values = [row.get(column.name) for row in rows]
    return column.shown in (None, size_text) and all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values
    )


def _padded(text: str, width: int, *, right: bool) -> str:
    text = cut(text, width)
    space = " " * (width - width_of(text))
    return space + text if right else text + space


# -- printing ----------------------------------------------------------------------------------------------------------
class Output:
    """The output of a command."""

    def __init__(self, *, is_json: bool, stream: TextIO | None = None) -> None:
        self.is_json = is_json
        self.stream = stream or sys.stdout
        self.is_terminal = self.stream.isatty()

    @property
    def width(self) -> int | None:
        return shutil.get_terminal_size().columns if self.is_terminal else None

    def line(self, text: str = "") -> None:
        print(text, file=self.stream)

    def json(self, value: Any) -> None:
        self.line(json.dumps(value, ensure_ascii=False, indent=2 if self.is_terminal else None, default=str))

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, empty: str = "") -> None:
        """Print a list as a table, or as a JSON array."""
        found = list(rows)
        if self.is_json:
            self.json(found)
            return
        if not found and empty and self.is_terminal:
            self.line(empty)
            return
        for number, line in enumerate(table(columns, found, self.width)):
            self.line(f"\x1b[1m{line}\x1b[0m" if self.is_terminal and number == 0 else line)

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Print names and values, one pair a line."""
        longest = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            text = printable(value)
            self.line(f"{name.ljust(longest)}  {text}" if self.is_terminal else f"{name}\t{text}")

    def done(self, message: str, value: Any) -> None:
        """Print what a change has done, or its JSON."""
        if self.is_json:
            self.json(value)
        else:
            self.line(message)


def output_of(given: argparse.Namespace) -> Output:
    return Output(is_json=given.json)
