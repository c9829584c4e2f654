"""Records with a priority or a time to live: the partition's index of them, as state writes. Pure, like timers.py.

| state's name | value |
| --- | --- |
| `p/s` | for each class the last known offset |
| `p/c`, class, offset | of one batch, named by the last of them: when it came, and runs of offsets with the time at which each expires |

Records of the default class without a time to live are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from kompat.extensions.headers import RecordOptions
from kompat.extensions.priority.order import CLASSES, DEFAULT_CLASS, NEVER, RankedBatch, RankedRun
from kompat.extensions.states import Draft
from kompat.types import Millis, Offset

SUMMARY: Final = b"p/s"
CLASS: Final = b"p/c"
NONE: Final = (-1,) * CLASSES
_SUMMARY = Struct(f">{CLASSES}q")
_NAME = Struct(">BQ")
_HEAD = Struct(">QQ")  # when it came, first offset
_RUN = Struct(">IIQ")  # first and last, counted from the first offset; when they expire


class Ranks:
    """The index entries of a batch."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: dict[int, list[RankedRun]] = {}

    def add(self, offset: Offset, options: RecordOptions, now: Millis) -> None:
        """A record that is appended to the log, with its options."""
        priority = DEFAULT_CLASS if options.priority is None else options.priority
        expires = NEVER if options.time_to_live is None else min(NEVER, now + options.time_to_live)
        if priority == DEFAULT_CLASS and expires == NEVER:
            return
        runs = self._runs.setdefault(priority, [])
        if runs and runs[-1].last + 1 == offset and runs[-1].expires == expires:
            runs[-1] = runs[-1]._replace(last=offset)
        else:
            runs.append(RankedRun(offset, offset, expires))

    def write(self, draft: Draft, now: Millis) -> None:
        if not self._runs:
            return
        newest = list(decode_newest(draft.get(SUMMARY)) or NONE)
        for priority, runs in self._runs.items():
            draft.put(name_of(priority, runs[-1].last), encode(RankedBatch(now, runs)))
            newest[priority] = runs[-1].last
        draft.put(SUMMARY, _SUMMARY.pack(*newest))


def decode_newest(value: bytes | None) -> Sequence[int] | None:
    return None if value is None else _SUMMARY.unpack(value)


def name_of(priority: int, last: int) -> bytes:
    return CLASS + _NAME.pack(priority, last)


def last_of(name: bytes) -> int:
    last: int = _NAME.unpack_from(name, len(CLASS))[1]
    return last


def encode(batch: RankedBatch) -> bytes:
    base = batch.runs[0].first
    parts = [_RUN.pack(run.first - base, run.last - base, run.expires) for run in batch.runs]
    return b"".join((_HEAD.pack(batch.came, base), *parts))


def decode(value: bytes) -> RankedBatch:
    came, base = _HEAD.unpack_from(value)
    runs = [
        RankedRun(base + first, base + last, expires)
        for first, last, expires in _RUN.iter_unpack(memoryview(value)[_HEAD.size :])
    ]
    return RankedBatch(Millis(came), runs)
