"""A page of metrics in Prometheus' text format 0.0.4, gathered sample by sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from kompat.common.meters import Histogram
from kompat.metrics.catalogue import METRICS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_SERIES = 10_000  # of one metric

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Page:
    """Samples by metric, in any order. A metric has at most `MOST_SERIES` series; the page counts those that are left out."""

    def __init__(self, most: int = MOST_SERIES) -> None:
        self._most = most
        self._samples: dict[str, list[str]] = {}
        self._left_out: dict[str, int] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        """`labels` are values, in the order of the catalogue. Raises KeyError if there is no such metric."""
        samples = self._of(name)
        if len(samples) >= self._most:
            self._left_out[name] = self._left_out.get(name, 0) + 1
            return
        names = METRICS[name].labels
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in zip(names, labels, strict=True))
        samples.append(f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}")

    def add_histogram(self, name: str, histogram: Histogram, *labels: str) -> None:
        pairs = [f'{label}="{_escaped(text)}"' for label, text in zip(METRICS[name].labels, labels, strict=True)]
        bounds = [*map(_number, histogram.bounds), "+Inf"]
        samples = self._of(name)
        total = 0
        for bound, total in zip(bounds, accumulate(histogram.buckets), strict=True):
            below = f'le="{bound}"'
            samples.append(f"{name}_bucket{_braces([*pairs, below])} {total}")
        samples.append(f"{name}_sum{_braces(pairs)} {_number(histogram.seconds)}")
        samples.append(f"{name}_count{_braces(pairs)} {total}")

    def has_room(self, name: str) -> bool:
        return len(self._samples.get(name, ())) < self._most

    def leave_out(self, name: str, count: int) -> None:
        """Count series that the caller leaves out."""
        if count > 0:
            self._left_out[name] = self._left_out.get(name, 0) + count

    def _of(self, name: str) -> list[str]:
        if name not in METRICS:
            raise KeyError(name)
        return self._samples.setdefault(name, [])

    def lines(self) -> Iterable[str]:
        """The lines of the page, with each metric's description before its samples."""
        for name, count in sorted(self._left_out.items()):
            self.add("kompat_metrics_omitted_series", count, name)
        for name, metric in METRICS.items():
            samples = self._samples.get(name)
            if samples:
                yield f"# HELP {name} {metric.help.replace(chr(92), chr(92) * 2)}"
                yield f"# TYPE {name} {metric.kind}"
                yield from samples


def _braces(labels: Sequence[str]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES) if '"' in text or "\\" in text or "\n" in text else text


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))  # also for a bool
    return repr(value) if abs(value) != float("inf") else ("+Inf" if value > 0 else "-Inf")
