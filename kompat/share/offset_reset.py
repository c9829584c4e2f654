"""Where a share group starts in a partition that it has not read yet: `share.auto.offset.reset`."""

from __future__ import annotations

import re

from kompat.log.partition import Partition
from kompat.types import Millis, Offset

_BY_DURATION = "by_duration:"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


async def initial_offset(log: Partition, reset: str, now: Millis) -> Offset:
    reset = reset.lower()
    if reset == "earliest":
        return log.log_start_offset
    if reset.startswith(_BY_DURATION):
        found = await log.offset_for_time(Millis(now - duration_ms(reset.removeprefix(_BY_DURATION))))
        if found is not None:
            return found.offset
    return log.high_watermark


def duration_ms(text: str) -> int:
    """An ISO 8601 duration of days and less: PnDTnHnMn.nS."""
    match = _DURATION.fullmatch(text)
    days, hours, minutes, seconds = match.groups() if match is not None else (None,) * 4
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes or 0) * 60
    return whole * 1000 + int(float(seconds or 0) * 1000)
