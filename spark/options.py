"""Arguments that all jobs have."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING

from spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parser(module: str, description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    spark = made.add_argument_group("Spark")
    spark.add_argument("--master", help="where Spark runs; default: as spark-submit says, else local[*]")
    spark.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", type=setting, help="a Spark setting")
    return made


def add_kafka(made: argparse.ArgumentParser) -> None:
    kafka = made.add_argument_group("broker")
    kafka.add_argument("--bootstrap-servers", default="127.0.0.1:9092", metavar="HOST:PORT,…")
    kafka.add_argument(
        "--kafka", action="append", default=[], metavar="NAME=VALUE", type=setting, help="a setting of the Kafka client"
    )


def setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def moment(text: str) -> int:
    """Milliseconds since 1970, or a time as in 2026-01-31T12:00:00Z."""
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: {error}") from None
    if found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} does not say its time zone: 2026-01-31T12:00:00Z does")
    return round(found.timestamp() * 1000)


def session(name: str, options: argparse.Namespace) -> SparkSession:
    found = open_session(name, master=options.master, settings=dict(options.set))
    found.sparkContext.setLogLevel("ERROR")
    return found


def kafka_options(options: argparse.Namespace) -> dict[str, str]:
    """As Spark's Kafka source and sink want them."""
    client = {f"kafka.{name.removeprefix('kafka.')}": value for name, value in options.kafka}
    return {"kafka.bootstrap.servers": options.bootstrap_servers, **client}
