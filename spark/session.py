"""A Spark session that can speak with kompat."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spark import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
# Those of Spark's settings whose defaults suit a cluster better than a laptop, or a table of times.
_LOCAL_SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_QUIET_LOGS = Path(__file__).with_name("log4j2-quiet.properties").resolve()
_SETTINGS = {"spark.sql.session.timeZone": "UTC"}


def open_session(
    name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None, is_quiet: bool = False
) -> SparkSession:
    """The session of `spark-submit` where it runs under that, else one of its own.

    `master` None leaves the choice to spark-submit, and is local without it.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if "PYSPARK_GATEWAY_PORT" in os.environ:  # under spark-submit, whose settings are in the JVM that it has started
        SparkContext._ensure_initialized()
    given = SparkConf()
    is_submitted = given.contains("spark.submit.deployMode") or given.contains("spark.master")
    chosen = master or (None if is_submitted else LOCAL)
    if chosen is not None and chosen.startswith("local"):
        os.environ.setdefault(
            "PYSPARK_PYTHON", sys.executable
        )  # else whatever is first on the PATH, with other packages
    builder = SparkSession.builder.appName(name)
    if chosen is not None:
        builder = builder.master(chosen)
    wanted = {**(_LOCAL_SETTINGS if chosen and chosen.startswith("local") else {}), **_SETTINGS, **(settings or {})}
    if is_quiet and chosen is not None:
        wanted.setdefault("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_QUIET_LOGS.as_uri()}")
    if not given.contains("spark.jars") and not given.contains("spark.jars.packages"):
        wanted["spark.jars"] = ",".join(map(str, jars.find()))
    for key, value in wanted.items():
        if not given.contains(key):
            builder = builder.config(key, value)
    return builder.getOrCreate()
