"""The numbers of traces as a page: tables and plots in one HTML file that needs nothing else. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from html import escape
from typing import Final, NamedTuple

from spark.charts import Point, bar_chart, clock, line_chart

STAGES: Final = (
    "publish",
    "park",
    "wait",
    "process",
    "dead letter",
    "commit",
    "expire",
)  # as a record goes through them
COUNTS: Final = (
    "produced",
    "parked",
    "fired",
    "delivered",
    "redelivered",
    "acknowledged",
    "committed_past",
    "released",
    "rejected",
    "lock_expired",
    "dead_lettered",
    "expired",
    "cancelled",
    "stuck",
)
PERCENTILES: Final = ("p50", "p95", "p99")
MOST_PLOTTED: Final = 20  # topics and groups: a page has to be looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long a stage took, in milliseconds."""

    count: int
    p50: int
    p95: int
    p99: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Of a topic, and of a group or of what has none; of all time or of a minute."""

    topic: str
    group: str | None
    minute: int | None = None  # ms since 1970
    counts: Mapping[str, int]
    unmatched: int  # stages whose begin is not known
    dead_letter_rate: float | None
    stages: Mapping[str, Times]

    @property
    def name(self) -> str:
        return self.topic if self.group is None else f"{self.topic} · {self.group}"


class StuckRecord(NamedTuple):
    topic: str
    group: str | None
    state: str
    record: str  # where it was first
    trace_id: str
    at: int  # ms since 1970: since then it is stuck


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    steps: int
    bad: int
    late: int
    newest: int  # time of the newest event, ms since 1970
    window: int  # seconds: a minute
    totals: Sequence[Numbers]
    minutes: Sequence[Numbers]
    stuck: Sequence[StuckRecord]  # the newest of them
    stuck_count: int

    def to_json(self) -> str:
        told = {name: getattr(self, name) for name in ("steps", "bad", "late", "newest", "window", "stuck_count")}
        lists = {"totals": [asdict(each) for each in self.totals], "minutes": [asdict(each) for each in self.minutes]}
        return json.dumps({**told, **lists, "stuck": [each._asdict() for each in self.stuck]})


# -- on a terminal -----------------------------------------------------------------------------------------------------
def table(summary: Summary) -> str:
    """A line for each stage of each topic and group."""
    lines = [
        f"{'topic · group':40} {'stage':12} {'count':>8} " + " ".join(f"{name:>8}" for name in (*PERCENTILES, "max"))
    ]
    for each in summary.totals:
        for stage in _stages_of(each):
            numbers = " ".join(f"{number:>8}" for number in astuple(each.stages[stage]))
            lines.append(f"{each.name:40} {stage:12} {numbers}")
        lines.append(f"{each.name:40} {_told(each)}")
    lines.append(f"{summary.stuck_count} records are stuck, {summary.bad} were no events, {summary.late} came too late")
    return "\n".join(lines)


def _told(each: Numbers) -> str:
    found = [f"{each.counts[name]} {name.replace('_', ' ')}" for name in COUNTS if each.counts.get(name)]
    return ", ".join([*found, *([f"dead letters {each.dead_letter_rate:.2%}"] if each.dead_letter_rate else [])])


def _stages_of(each: Numbers) -> list[str]:
    return [stage for stage in STAGES if stage in each.stages]


# -- as a page ---------------------------------------------------------------------------------------------------------
_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 1360px; padding: 0 1rem; color: #1f2937 }
table { border-collapse: collapse; margin: .5rem 0 1.5rem } td, th { padding: .2rem .6rem; text-align: right }
td:nth-child(-n+3), th:nth-child(-n+3) { text-align: left } tr:nth-child(even) { background: #f3f4f6 }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 1rem }
figure { margin: 0 } figcaption { font-weight: 600 } svg { width: 100% } svg text { font-size: 10px; fill: #4b5563 }
.grid { stroke: #e5e7eb } code { font-size: 12px }
"""


def page(summary: Summary) -> str:
    told = (
        f"{summary.steps:,} events up to {clock(summary.newest)} UTC; {summary.bad:,} records were no events, "
        f"{summary.late:,} events came too late and are not counted."
    )
    parts = [
        "<h1>Traces</h1>",
        f"<p>{told}</p>",
        "<h2>Time per stage, in milliseconds</h2>",
        _stage_table(summary.totals),
        "<h2>What happened</h2>",
        _count_table(summary.totals),
        f"<h2>Stuck records: {summary.stuck_count}</h2>",
        _stuck_table(summary),
        "<h2>Over time</h2>",
        _plots(summary),
        f'<script type="application/json" id="numbers">{_harmless(summary.to_json())}</script>',
    ]
    head = f'<meta charset="utf-8"><title>Traces</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>'


def _harmless(text: str) -> str:
    """JSON that cannot end the element that it is in: names of topics are free of this, but ids need not be."""
    return text.replace("<", "\\u003c")


def _rows(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    def line(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(_cell(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def _cell(value: object) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _stage_table(totals: Sequence[Numbers]) -> str:
    rows = [
        [each.topic, each.group, stage, *astuple(each.stages[stage])] for each in totals for stage in _stages_of(each)
    ]
    return _rows(["topic", "group", "stage", "count", *PERCENTILES, "max"], rows)


def _count_table(totals: Sequence[Numbers]) -> str:
    shown = [name for name in COUNTS if any(each.counts.get(name) for each in totals)]
    rows = [
        [
            each.topic,
            each.group,
            None if each.dead_letter_rate is None else f"{each.dead_letter_rate:.2%}",
            *(each.counts.get(name, 0) for name in shown),
            each.unmatched,
        ]
        for each in totals
    ]
    head = ["topic", "group", "dead letters", *(name.replace("_", " ") for name in shown), "begin not known"]
    return _rows(head, rows)


def _stuck_table(summary: Summary) -> str:
    if not summary.stuck:
        return "<p>None.</p>"
    rows = [[each.topic, each.group, each.state, each.record, each.trace_id, clock(each.at)] for each in summary.stuck]
    table_ = _rows(["topic", "group", "since it was", "record", "trace", "stuck since"], rows)
    left = summary.stuck_count - len(summary.stuck)
    return table_ + (f"<p>And {left:,} more.</p>" if left else "")


def _plots(summary: Summary) -> str:
    busiest = sorted(summary.totals, key=lambda each: -sum(each.counts.values()))
    shown = [each.name for each in busiest[:MOST_PLOTTED]]
    drawn = []
    for name in shown:
        minutes = [each for each in summary.minutes if each.name == name]
        drawn += [_stage_plot(name, stage, minutes) for stage in STAGES]
        drawn.append(_trouble_plot(name, minutes, summary.window * 1000))
    left = len(busiest) - len(shown)
    more = f"<p>{left} topics and groups with less in them are not plotted.</p>" if left > 0 else ""
    return f'<div class="plots">{"".join(drawn)}</div>{more}'


def _stage_plot(name: str, stage: str, minutes: Sequence[Numbers]) -> str:
    series: dict[str, list[Point]] = {percentile: [] for percentile in PERCENTILES}
    for each in minutes:
        if stage in each.stages and each.minute is not None:
            for percentile, points in series.items():
                points.append((each.minute, getattr(each.stages[stage], percentile)))
    return line_chart(f"{name}: {stage}", series, " ms")


def _trouble_plot(name: str, minutes: Sequence[Numbers], width_ms: int) -> str:
    series = {
        what.replace("_", " "): [(each.minute, each.counts.get(what, 0)) for each in minutes if each.minute is not None]
        for what in ("redelivered", "dead_lettered", "expired", "stuck")
    }
    return bar_chart(f"{name}: trouble", series, "", width_ms)
