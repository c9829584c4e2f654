"""Small plots as SVG text, for pages that need nothing else. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

Point = tuple[int, float]  # ms since 1970, and a value

WIDTH: Final = 640
HEIGHT: Final = 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 24, 22
_COLOURS: Final = ("#2563eb", "#d97706", "#dc2626", "#059669", "#7c3aed")
_LINES: Final = 4  # across
_STEPS: Final = (1, 2, 5, 10)


def line_chart(title: str, series: Mapping[str, Sequence[Point]], unit: str) -> str:
    """Lines over time, one for each name; a lone point is a dot."""
    points = [point for each in series.values() for point in each]
    if not points:
        return ""
    frame = _Frame(points)
    drawn = [frame.axes(unit)]
    for index, (name, each) in enumerate(series.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        drawn += [_line(frame, each, colour, name, unit), _legend(index, name, colour)]
    return _svg(title, drawn)


def bar_chart(title: str, series: Mapping[str, Sequence[Point]], unit: str, width_ms: int) -> str:
    """Bars over time that stand on each other; each is as wide as the time that it counts."""
    heights: dict[int, float] = {}
    for each in series.values():
        for at, value in each:
            heights[at] = heights.get(at, 0) + value
    if not any(heights.values()):
        return ""
    frame = _Frame([*heights.items(), (max(heights) + width_ms, 0)])
    drawn, below = [frame.axes(unit)], dict.fromkeys(heights, 0.0)
    for index, (name, each) in enumerate(series.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        drawn.append(_legend(index, name, colour))
        for at, value in each:
            if value:
                drawn.append(_bar(frame, at, below[at], value, colour, name, width_ms))
                below[at] += value
    return _svg(title, drawn)


class _Frame:
    """Where points lie."""

    def __init__(self, points: Sequence[Point]) -> None:
        times = [at for at, _ in points]
        self.start, self.end = min(times), max(max(times), min(times) + 1)
        self.top, self.step = _scale(max(value for _, value in points))

    def x(self, at: float) -> float:
        return _LEFT + (at - self.start) / (self.end - self.start) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - value / self.top * (HEIGHT - _TOP - _BOTTOM)

    def axes(self, unit: str) -> str:
        drawn = []
        for number in range(round(self.top / self.step) + 1):
            value, y = number * self.step, self.y(number * self.step)
            drawn.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            drawn.append(f'<text x="{_LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{value:g}{escape(unit)}</text>')
        for at, anchor in ((self.start, "start"), (self.end, "end")):
            x = self.x(at)
            drawn.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{clock(at)}</text>')
        return "".join(drawn)


def clock(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _scale(most: float) -> tuple[float, float]:
    """A round number that is at least this, and the distance of the lines across."""
    most = max(most, 1.0)
    size = 1.0
    while size * _STEPS[-1] * _LINES < most:
        size *= 10
    step = next(size * each for each in _STEPS if size * each * _LINES >= most)
    lines = -int(-most // step)
    return lines * step, step


def _line(frame: _Frame, points: Sequence[Point], colour: str, name: str, unit: str) -> str:
    ordered = sorted(points)
    path = " ".join(f"{frame.x(at):.1f},{frame.y(value):.1f}" for at, value in ordered)
    dots = "".join(
        f'<circle cx="{frame.x(at):.1f}" cy="{frame.y(value):.1f}" r="2.5" fill="{colour}">'
        f"<title>{escape(name)} {clock(at)}: {value:g}{escape(unit)}</title></circle>"
        for at, value in ordered
    )
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>{dots}'


def _bar(frame: _Frame, at: int, below: float, value: float, colour: str, name: str, width_ms: int) -> str:
    x, y = frame.x(at), frame.y(below + value)
    width = max(1.0, (frame.x(at + width_ms) - x) * 0.9)
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{frame.y(below) - y:.1f}" fill="{colour}">'
        f"<title>{escape(name)} {clock(at)}: {value:g}</title></rect>"
    )


def _legend(index: int, name: str, colour: str) -> str:
    x = _LEFT + index * 110
    return (
        f'<rect x="{x}" y="6" width="10" height="10" fill="{colour}"/><text x="{x + 14}" y="15">{escape(name)}</text>'
    )


def _svg(title: str, drawn: Sequence[str]) -> str:
    inside = "".join(drawn)
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{inside}</svg></figure>'
    )
