"""kompat next to Apache Kafka, measure by measure, in one interleaved run: `make bench`.

On a shared machine only the ratios of one run count: each measure runs on both brokers, in turns, several rounds, the
order reversed each time. The figure is the median over the rounds of each round's own ratio; the spread says how far to
trust it. Kafka is warmed up first: a fresh JVM is slower for minutes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import platform
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import kafka
from benchmarks.processes import Process, kompat, usage
from benchmarks.workloads import WORKLOADS, Run

RESULTS = Path(__file__).parent / "RESULTS.md"


@dataclass(frozen=True)
class Measure:
    name: str
    workload: str
    seconds: float
    figures: tuple[str, ...]  # "+" in front: higher is better
    options: dict[str, Any] = field(default_factory=dict)
    reads: str = ""  # the measure whose topic this one reads


def measures() -> list[Measure]:
    plan = []
    for size, label in ((100, "100 B"), (1024, "1 KiB")):
        for acks, idempotent in (("1", False), ("all", False), ("all", True)):
            for compression in ("none", "lz4"):
                name = f"produce {label} acks={acks} {compression}{' idempotent' if idempotent else ''}"
                options = {"size": size, "acks": acks, "idempotent": idempotent, "compression": compression}
                keep = acks == "1"
                plan.append(Measure(name, "produce", 4, ("+per_second", "broker_us"), options | {"keep": keep}))
                if keep:
                    read = f"consume {label} {compression}"
                    plan.append(Measure(read, "consume", 3, ("+per_second", "broker_us"), reads=name))
    for acks, idempotent in (("1", False), ("all", True)):
        name = f"synchronous produce acks={acks}{' idempotent' if idempotent else ''}"
        figures = ("p50_ms", "p99_ms", "broker_us")
        plan.append(Measure(name, "synchronous", 4, figures, {"acks": acks, "idempotent": idempotent}))
    for acks, linger in (("1", 0), ("all", 5)):
        figures = ("p50_ms", "p99_ms", "broker_us")
        options = {"acks": acks, "linger": linger}
        plan.append(Measure(f"end to end, 1,000/s, linger {linger}", "end_to_end", 4, figures, options))
    plan.append(
        Measure("50 producers × 10 messages", "many_producers", 4, ("+per_second", "p50_ms", "p99_ms", "broker_us"))
    )
    plan.append(Measure("metadata, 8 clients", "metadata", 3, ("+per_second", "broker_us")))
    return plan


def _child(workload: str, run: Run, answer: Any) -> None:
    try:
        answer.send(WORKLOADS[workload](run))
    except Exception as error:  # noqa: BLE001 - whatever it was, the row says so
        answer.send(f"{type(error).__name__}: {error}")


def measure(workload: str, run: Run) -> dict[str, float] | str:
    """In a process of its own, so that one measure's client cannot slow the next one's."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(target=_child, args=(workload, run, there))
    child.start()
    there.close()
    try:
        answer: dict[str, float] | str = here.recv() if here.poll(run.seconds + 150) else "no answer in time"
    except EOFError:
        answer = "the client died"
    child.kill()
    child.join()
    return answer


class Comparison:
    def __init__(self, brokers: list[Process], rounds: int, scale: float) -> None:
        self.brokers, self.rounds, self.scale = brokers, rounds, scale
        self.samples: dict[tuple[str, str], list[dict[str, float]]] = {}
        self.failures: list[str] = []
        self._flip = False

    def run(self, plan: list[Measure]) -> None:
        for each in plan:
            for turn in range(self.rounds):
                order = self.brokers[::-1] if self._flip else self.brokers
                self._flip = not self._flip
                for broker in order:
                    self._one(each, turn, broker)

    def _one(self, each: Measure, turn: int, broker: Process) -> None:
        # A reading measure reads, in each round, what the producing one left in that round.
        topic = _topic(each.reads or each.name, turn)
        result = measure(
            each.workload, Run(broker.bootstrap, broker.pids, topic, each.seconds * self.scale, each.options)
        )
        if isinstance(result, str):
            self.failures.append(f"{each.name}, {broker.name}: {result}")
        else:
            self.samples.setdefault((each.name, broker.name), []).append(result)
        print(json.dumps({"measure": each.name, "broker": broker.name, "round": turn, "result": result}), flush=True)
        if each.reads:
            Run(broker.bootstrap, broker.pids, topic, 0).delete_topic()

    def rows(self, plan: list[Measure]) -> list[str]:
        ours, theirs = (b.name for b in self.brokers)
        rows = []
        for each in plan:
            for figure in each.figures:
                key = figure.lstrip("+")
                pairs = zip(
                    self.samples.get((each.name, ours), []), self.samples.get((each.name, theirs), []), strict=False
                )
                both = [(a[key], b[key]) for a, b in pairs if b[key]]
                if not both:
                    rows.append(f"| {each.name} | {key} | – | – | – | |")
                    continue
                ratios = [a / b for a, b in both]
                mine, kafkas = (statistics.median(x) for x in zip(*both, strict=True))
                wanted = "≥ 1" if figure.startswith("+") else "≤ 1"
                rows.append(
                    f"| {each.name} | {key} ({wanted}) | {mine:,.4g} | {kafkas:,.4g} "
                    f"| **{statistics.median(ratios):.2f}** | {min(ratios):.2f}–{max(ratios):.2f} |"
                )
        return rows


def _topic(name: str, turn: int) -> str:
    return "".join(c if c.isalnum() else "-" for c in name) + f"-{turn}-{os.getpid()}"


def _warm(broker: Process, seconds: float) -> None:
    produce = {"size": 100, "acks": "1", "idempotent": False, "compression": "none"}
    for workload, share, options in (
        ("produce", 0.5, produce),
        ("synchronous", 0.2, {"acks": "all", "idempotent": True}),
        ("end_to_end", 0.15, {"acks": "1", "linger": 0}),
        ("metadata", 0.15, {}),
    ):
        run = Run(broker.bootstrap, broker.pids, f"warm-{workload}-{os.getpid()}", seconds * share, options)
        result = measure(workload, run)
        if isinstance(result, str):
            sys.exit(f"{broker.name} fails the warm-up: {result}")


def report(comparison: Comparison, plan: list[Measure], idle: dict[str, float]) -> str:
    used = {b.name: usage(b.pids) for b in comparison.brokers}
    ours, theirs = comparison.brokers
    lines = [
        f"Measured {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.machine()}, Python "
        f"{platform.python_version()}, Apache Kafka {kafka.VERSION}; {comparison.rounds} rounds. Repeat with `make bench`.",
        "",
        "| measure | figure (wanted ratio) | kompat | Apache Kafka | ratio | rounds |",
        "| --- | --- | ---: | ---: | ---: | --- |",
        *comparison.rows(plan),
        _plain("start to first answer, s", ours.answered_after, theirs.answered_after),
        _plain("memory idle, MiB", idle[ours.name], idle[theirs.name]),
        _plain("memory under load (peak), MiB", used[ours.name].peak, used[theirs.name].peak),
        "",
        *(f"Failed: {failure}" for failure in comparison.failures),
    ]
    return "\n".join(lines)


def _plain(name: str, mine: float, kafkas: float) -> str:
    return f"| {name} | (≤ 0.2, load ≤ 0.33) | {mine:.3g} | {kafkas:.3g} | **{mine / kafkas:.2f}** | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on each measure's seconds")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds of warm-up for each broker")
    parser.add_argument("--only", default="", help="measures whose name contains this text, several by ','")
    parser.add_argument("--write", action="store_true", help=f"write the table into {RESULTS.name}")
    parser.add_argument("--set", action="append", default=[], help="a setting for kompat, name=value")
    args = parser.parse_args()
    wanted = args.only.split(",")
    chosen = {m.name for m in measures() if any(w in m.name for w in wanted)}
    chosen |= {m.reads for m in measures() if m.name in chosen}  # what a measure reads has to be produced
    plan = [m for m in measures() if m.name in chosen]
    directory = Path(tempfile.mkdtemp(prefix="kompat-bench-"))
    brokers: list[Process] = []
    try:
        brokers.append(kompat(29092, directory / "kompat", *args.set))
        brokers.append(kafka.start(29192, directory / "kafka"))
        idle = {b.name: usage(b.pids).rss for b in brokers}
        for broker in brokers:
            _warm(broker, args.warm)
        comparison = Comparison(brokers, args.rounds, args.scale)
        comparison.run(plan)
        text = report(comparison, plan, idle)
        print(text)
        if args.write:
            write_results("compare", text)
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


def write_results(section: str, text: str) -> None:
    """Between the section's markers: what was written by hand around them stays."""
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    old = RESULTS.read_text()
    head, rest = old.split(begin, 1)
    RESULTS.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}")


if __name__ == "__main__":
    main()
