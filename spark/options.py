"""Arguments that all jobs have."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kompat.cli.arguments import count, moment, setting
from spark.session import open_session

__all__ = ["add_kafka", "count", "kafka_options", "moment", "parser", "session", "setting"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parser(module: str, description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    spark = made.add_argument_group("Spark")
    spark.add_argument("--master", help="where Spark runs; default: as spark-submit says, else local[*]")
    spark.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", type=setting, help="a Spark setting")
    spark.add_argument("--debug", action="store_true", help="tell all that Spark says, and where errors come from")
    return made


def add_kafka(made: argparse.ArgumentParser) -> None:
    kafka = made.add_argument_group("broker")
    kafka.add_argument("--bootstrap-servers", default="127.0.0.1:9092", metavar="HOST:PORT,…")
    kafka.add_argument(
        "--kafka", action="append", default=[], metavar="NAME=VALUE", type=setting, help="a setting of the Kafka client"
    )


def session(name: str, options: argparse.Namespace) -> SparkSession:
    found = open_session(name, master=options.master, settings=dict(options.set), is_quiet=not options.debug)
    # Spark logs errors over pages, and then hands them on: jobs tell them in a line.
    found.sparkContext.setLogLevel("WARN" if options.debug else "FATAL")
    return found


def kafka_options(options: argparse.Namespace) -> dict[str, str]:
    """As Spark's Kafka source and sink want them."""
    client = {f"kafka.{name.removeprefix('kafka.')}": value for name, value in options.kafka}
    return {"kafka.bootstrap.servers": options.bootstrap_servers, **client}
