"""The story of a record, drawn in text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kompat.cli.output import cut, duration_text, printable, time_text, width_of

BAR: Final = 30
NARROWEST: Final = 60
PRODUCED: Final = "PRODUCED"
# What is told of an event besides where and when it was.
DETAILS: Final = (
    "broker",
    "clientId",
    "group",
    "memberId",
    "deliveryCount",
    "due",
    "reason",
    "toTopic",
    "toPartition",
    "toOffset",
)


def drawn(story: Mapping[str, Any], width: int) -> list[str]:
    """A head, and a line for each event: when, how long after the start, a mark on a bar of the whole time, and what."""
    events: Sequence[Mapping[str, Any]] = story["events"]
    if not events:
        return [_head(story), "  nothing is known of it"]
    start, end = events[0]["timestamp"], events[-1]["timestamp"]
    total = max(1, end - start)
    names = max(width_of(each["kind"]) for each in events)
    lines = [_head(story), f"  {time_text(start)}, {duration_text(end - start)} in all"]
    previous = start
    for at, each in enumerate(events):
        since, step = each["timestamp"] - start, each["timestamp"] - previous
        previous = each["timestamp"]
        edge = "┌" if at == 0 else "└" if at == len(events) - 1 else "├"
        line = f"  {edge} {'+' + duration_text(since):>10}  {_bar(since / total, step / total)}  "
        line += f"{each['kind'].ljust(names)}  {_details(each)}"
        lines.append(cut(line.rstrip(), max(width, NARROWEST)))
    return lines


def _head(story: Mapping[str, Any]) -> str:
    message = f"  message {story['messageId']}" if story.get("messageId") else ""
    record = story["record"]
    where = f"{record['topic']}/{record['partition']}/{record['offset']}"
    return printable(f"{where}  trace {story['traceId']}{message}")


def _bar(until: float, step: float) -> str:
    """A line of the time since the event before, up to this event's place in the whole."""
    last = min(BAR - 1, round(until * (BAR - 1)))
    first = min(last, round((until - step) * (BAR - 1)))
    return " " * first + "─" * (last - first) + "●" + " " * (BAR - 1 - last)


def _details(event: Mapping[str, Any]) -> str:
    told = []
    for name in DETAILS:
        value = event.get(name)
        if value is None or name in ("toPartition", "toOffset"):
            continue
        if name == "due":
            told.append(f"due {time_text(value)}")
        elif name == "toTopic":
            told.append(f"→ {value}/{event.get('toPartition')}/{event.get('toOffset')}")
        elif name == "deliveryCount":
            told.append(f"delivery {value}")
        elif name == "clientId":
            told.append(f"{'by' if event['kind'] == PRODUCED else 'to'} {value}")
        else:
            told.append(f"{'member' if name == 'memberId' else name} {value}")
    return printable(", ".join(told))
