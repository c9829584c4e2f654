"""The broker's own logs: one line an event on stderr, as `name=value` pairs that people and machines can read."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_NOT_FACTS = frozenset(vars(logging.LogRecord("", 0, "", 0, "", None, None))) | {"message", "asctime", "taskName"}


class PairFormatter(logging.Formatter):
    """The fields of `extra` follow the message. A traceback stays on the line, unless stderr is a terminal."""

    def __init__(self, *, is_watched: bool) -> None:
        super().__init__()
        self._is_watched = is_watched

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        pairs: list[tuple[str, object]] = [
            ("time", at),
            ("level", record.levelname.lower()),
            ("logger", record.name),
            ("message", record.getMessage()),
        ]
        pairs += [(name, value) for name, value in vars(record).items() if name not in _NOT_FACTS]
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if trace and not self._is_watched:
            pairs.append(("traceback", trace))
        line = " ".join(f"{name}={_quoted(str(value))}" for name, value in pairs)
        return f"{line}\n{trace}" if trace and self._is_watched else line


def _quoted(text: str) -> str:
    is_plain = text.isprintable() and text != "" and not any(c in ' "=' for c in text)
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def set_up(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PairFormatter(is_watched=stream.isatty()))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
