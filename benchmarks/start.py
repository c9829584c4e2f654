"""A broker without others: seconds from `kompat start` to its first answer, memory when it is idle, time of imports.

Several source trees are measured by turns, so that what else the machine does falls on all of them:

    python -m benchmarks.start --rounds 10 before=/path/to/another/checkout now=.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.processes import kompat, usage

IDLE_SECONDS = 2.0
PORT = 29392
COLUMNS = ("answer, ms", "CPU, ms", "RSS, MiB", "imports, ms", "modules")


def once(tree: Path, data: Path) -> tuple[float, ...]:
    os.chdir(tree)  # `python -m` looks there first
    os.environ["PYTHONPATH"] = str(tree)
    broker = kompat(PORT, data)
    try:
        spent = usage(broker.pids).cpu
        time.sleep(IDLE_SECONDS)
        rss = usage(broker.pids).rss
    finally:
        broker.stop()
    return (1000 * broker.answered_after, 1000 * spent, rss, *_imports())


def _imports() -> tuple[float, int]:
    """Of the broker and of all that it needs to begin, by `-X importtime`."""
    script = "import kompat.broker, kompat.log.storage.rocks"
    found = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", script], capture_output=True, text=True, check=True
    )
    rows = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|", found.stderr)
    return sum(map(int, rows)) / 1000, len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", metavar="NAME=PATH")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    trees = {name: Path(path).resolve() for name, _, path in (each.partition("=") for each in given.trees)}
    runs: dict[str, list[tuple[float, ...]]] = {name: [] for name in trees}
    for _ in range(given.rounds):
        for name, tree in trees.items():
            with tempfile.TemporaryDirectory() as directory:
                runs[name].append(once(tree, Path(directory)))
    print(f"| | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * len(COLUMNS)}")
    for name, found in runs.items():
        cells = (f"{median(column):.1f} ({min(column):.1f})" for column in zip(*found, strict=True))
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
