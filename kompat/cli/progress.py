"""A progress bar on stderr, if it is a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Final, TextIO

from kompat.cli.output import cut

EVERY: Final = 0.1  # seconds between two updates
BAR: Final = 24


def bar(done: float, total: float | None, label: str, seconds: float, width: int) -> str:
    """The line of the bar. Without a total it has only the count."""
    rate = f"{done / seconds:,.0f}/s" if seconds > 0 else ""
    if not total:
        return cut(f"{label} {done:,.0f} {rate}".rstrip(), width)
    part = min(1.0, done / total)
    filled = int(part * BAR)
    left = f" {(total - done) / done * seconds:,.0f} s left" if 0 < done < total and seconds > 1 else ""
    return cut(f"{label} [{'#' * filled}{'.' * (BAR - filled)}] {part:4.0%} {rate}{left}", width)


class Progress:
    """A context manager that clears the line at its end."""

    def __init__(
        self, label: str, total: float | None = None, stream: TextIO | None = None, *, is_watched: bool = True
    ) -> None:
        """`is_watched`: false if standard input is typed on the same terminal."""
        self._label = label
        self._total = total
        self._stream = stream or sys.stderr
        self._is_watched = is_watched and self._stream.isatty()
        self._began = time.monotonic()
        self._next = self._began + EVERY
        self._done = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_watched:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def add(self, count: float = 1) -> None:
        self.to(self._done + count)

    def to(self, done: float) -> None:
        self._done = done
        if not self._is_watched:
            return
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY
            line = bar(done, self._total, self._label, now - self._began, shutil.get_terminal_size().columns - 1)
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
