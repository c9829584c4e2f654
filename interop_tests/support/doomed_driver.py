"""A Spark driver that is there to be killed: it archives a topic, tells what traces tell, and copies the topic by a plain stream.

python -m interop_tests.support.doomed_driver BOOTSTRAP TOPIC DIRECTORY
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from interop_tests.support.sparks import FOR_FEW_ROWS, stream
from spark import archive, traces
from spark.session import open_session

ARCHIVE, TRACES, PLAIN, CHECKPOINT = "archive", "traces", "plain", "plain-checkpoint"


def archive_arguments(bootstrap: str, topic: str, home: Path) -> list[str]:
    return ["run", "--archive", str(home / ARCHIVE), "--bootstrap-servers", bootstrap, "--topics", topic]


def trace_arguments(bootstrap: str, topic: str, home: Path) -> list[str]:
    places = ["--out", str(home / TRACES), "--bootstrap-servers", bootstrap, "--to", f"{topic}-minutes"]
    return ["run", *places, "--window", "1", "--delay", "5s"]


def plain_stream(
    spark: SparkSession, bootstrap: str, topic: str, home: Path, most: int = 1_000_000, **trigger: object
) -> StreamingQuery:
    """Spark's connector and Spark's files, and nothing of ours. `most`: records in a batch."""
    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=most)
    writer = frame.writeStream.format("parquet").option("path", str(home / PLAIN))
    return writer.option("checkpointLocation", str(home / CHECKPOINT)).trigger(**trigger).start()


def main() -> None:
    bootstrap, topic, home = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spark = open_session("doomed", master="local[2]", settings=FOR_FEW_ROWS)
    fast = ["--interval", "200 milliseconds"]
    plain = plain_stream(spark, bootstrap, topic, home, 300, processingTime="200 milliseconds")

    def job(run: Callable[[list[str]], int], arguments: list[str]) -> None:
        try:
            print(arguments, "ended with", run(arguments), file=sys.stderr)  # noqa: T201 - to the log
        except BaseException:  # noqa: BLE001 - whatever it is, it is the end
            traceback.print_exc()
        os._exit(1)

    archiving = [*archive_arguments(bootstrap, topic, home), *fast, "--max-records", "300"]
    for run, arguments in (
        (archive.main, archiving),
        (traces.main, [*trace_arguments(bootstrap, topic, home), *fast]),
    ):
        threading.Thread(target=job, args=(run, arguments), daemon=True).start()
    plain.awaitTermination()


if __name__ == "__main__":
    main()
