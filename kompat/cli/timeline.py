"""The trace of a record, drawn in text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kompat.cli.output import cut, duration_text, printable, time_text, width_of

BAR: Final = 30
NARROWEST: Final = 60
PRODUCED: Final = "PRODUCED"
# Details of an event besides its place and time.
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


def drawn(trace: Mapping[str, Any], width: int) -> list[str]:
    """A head, and a line for each event: its time, the time since the start, a mark on a bar of the total time, and details."""
    events: Sequence[Mapping[str, Any]] = trace["events"]
    if not events:
        return [_head(trace), "  there are no events"]
    start, end = events[0]["timestamp"], events[-1]["timestamp"]
    total = max(1, end - start)
    names = max(width_of(each["kind"]) for each in events)
    lines = [_head(trace), f"  {time_text(start)}, {duration_text(end - start)} in total"]
    previous = start
    for at, each in enumerate(events):
        since, step = each["timestamp"] - start, each["timestamp"] - previous
        previous = each["timestamp"]
        edge = "┌" if at == 0 else "└" if at == len(events) - 1 else "├"
        line = f"  {edge} {'+' + duration_text(since):>10}  {_bar(since / total, step / total)}  "
        line += f"{each['kind'].ljust(names)}  {_details(each)}"
        lines.append(cut(line.rstrip(), max(width, NARROWEST)))
    return lines


def _head(trace: Mapping[str, Any]) -> str:
    message = f"  message {trace['messageId']}" if trace.get("messageId") else ""
    record = trace["record"]
    where = f"{record['topic']}/{record['partition']}/{record['offset']}"
    return printable(f"{where}  trace {trace['traceId']}{message}")


def _bar(until: float, step: float) -> str:
    """A line for the time since the previous event, up to this event's position in the total."""
    last = min(BAR - 1, round(until * (BAR - 1)))
    first = min(last, round((until - step) * (BAR - 1)))
    return " " * first + "─" * (last - first) + "●" + " " * (BAR - 1 - last)


def _details(event: Mapping[str, Any]) -> str:
    details = []
    for name in DETAILS:
        value = event.get(name)
        if value is None or name in ("toPartition", "toOffset"):
            continue
        if name == "due":
            details.append(f"due {time_text(value)}")
        elif name == "toTopic":
            details.append(f"→ {value}/{event.get('toPartition')}/{event.get('toOffset')}")
        elif name == "deliveryCount":
            details.append(f"delivery {value}")
        elif name == "clientId":
            details.append(f"{'by' if event['kind'] == PRODUCED else 'to'} {value}")
        else:
            details.append(f"{'member' if name == 'memberId' else name} {value}")
    return printable(", ".join(details))
