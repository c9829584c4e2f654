"""Tells on standard error how far a stream is: batches, rows, rows a second, and how many records are still to come."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from spark.running import Batches


class Progress:
    """Prints what is new since it was last asked."""

    def __init__(self, what: str, out: TextIO = sys.stderr) -> None:
        self._what = what
        self._out = out
        self._seen = -1
        self.rows = 0

    def show(self, query: StreamingQuery) -> None:
        for found in query.recentProgress:
            if found["batchId"] > self._seen:
                self._seen = found["batchId"]
                self._print(found)

    def _print(self, found: Any) -> None:
        rows = int(found["numInputRows"])
        self.rows += rows
        if rows:
            speed = found["processedRowsPerSecond"] or 0
            line = f"{self._what}: batch {found['batchId']}, {rows} rows, {speed:.0f} rows/s, {_behind(found)} to come"
            print(line, file=self._out, flush=True)


def _behind(found: Any) -> int:
    return sum(int(float((source["metrics"] or {}).get("maxOffsetsBehindLatest") or 0)) for source in found["sources"])


def run(query: StreamingQuery, what: str, batches: Batches, *, every_seconds: float = 1.0) -> int:
    """Until the stream ends, or fails: the rows that it took in. Ctrl-C ends it; a batch that is under way counts next time."""
    progress = Progress(what)
    try:
        while not query.awaitTermination(every_seconds):  # type: ignore[arg-type]
            progress.show(query)
    except KeyboardInterrupt:
        query.stop()
    except Exception as error:
        progress.show(query)
        if batches.failure is not None:
            raise batches.failure from error
        raise
    progress.show(query)
    return progress.rows
