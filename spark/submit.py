"""Runs a job under spark-submit, which knows files but no modules:

spark-submit --master spark://… spark/submit.py archive run --archive DIR --topics orders
"""

import runpy
import sys
from pathlib import Path

JOBS = ("archive", "dlq", "replay", "traces")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in JOBS:
        sys.exit(f"usage: spark-submit … spark/submit.py {{{','.join(JOBS)}}} …")
    sys.path[0] = str(Path(__file__).resolve().parent.parent)  # it was this directory, where modules have other names
    job = sys.argv.pop(1)
    runpy.run_module(f"spark.{job}", run_name="__main__", alter_sys=True)
