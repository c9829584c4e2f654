"""Runs a job: what goes wrong is told in one line, with an exit status. `--debug` tells all of it."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kompat.archive.manifest import ArchiveError
from kompat.cli.command import CommandError, UsageError
from kompat.cli.kafka_client import dial
from spark import options
from spark.jars import MissingJarsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FAILED, USAGE, INTERRUPTED = 1, 2, 130
LONGEST = 500  # characters of a reason: Spark prints plans
_PYTHON = re.compile(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
# What Java's exceptions say of themselves is not always enough.
_KNOWN = {
    "UnknownTopicOrPartitionException": "there is no such topic",
    "TimeoutException": "the broker does not answer",
}
_NO_CONNECTOR = "Failed to find data source: kafka"
_OF_CHECKPOINTS = ("JsonParseException", "EOFException", "Incomplete log file", "NumberFormatException")


class JobError(Exception):
    """The message says what is wrong."""


def run(name: str, made: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the job that the arguments choose; `work` is what it does."""
    given = made.parse_args(arguments)
    try:
        if hasattr(given, "bootstrap_servers"):
            dial(given.bootstrap_servers)  # Spark would try for minutes, and not say what
        done: int = given.work(options.session(f"kompat {name}", given), given)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        told = reason(error)
        if told is None or given.debug:
            raise
        hint = getattr(given, "hint", "") if told.startswith(_OF_CHECKPOINTS) else ""
        print(f"{name}: {told}" + (f"; {hint}" if hint else ""), file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED
    return done


class Batches:
    """Takes the batches of a stream, and remembers why one could not be taken: Spark hands that on as text within text."""

    def __init__(self, take: Callable[[DataFrame, int], object]) -> None:
        self._take = take
        self.failure: Exception | None = None

    def __call__(self, records: DataFrame, number: int) -> None:
        try:
            self._take(records, number)
        except Exception as error:
            self.failure = error
            raise


def reason(error: BaseException) -> str | None:
    """What is wrong, in a line; None where it is a fault of the job's own."""
    if isinstance(error, ArchiveError | CommandError | JobError | MissingJarsError | OSError):
        return line(str(error))
    java = _java(error)
    if java is not None:
        return _of_java(_root(java))
    kafka: Any = error.args[0] if error.args else None
    if type(kafka).__name__ == "KafkaError":
        return line(f"{kafka.str()} ({kafka.name()})")
    if type(error).__module__.startswith(("confluent_kafka", "cimpl", "pyspark", "py4j")):
        return line(str(error))
    return None


def _of_java(said: str) -> str:
    if _NO_CONNECTOR in said:
        return 'Spark\'s Kafka connector is missing: spark-submit --jars "$(python -m spark.jars --print)" …'
    return line(said)


def _java(error: BaseException) -> Any:
    """Java's exception behind one of Spark's in Python."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _root(java: Any) -> str:
    """What the innermost cause says; its class, too, where that says more."""
    while (cause := java.getCause()) is not None:
        java = cause
    kind, said = java.getClass().getSimpleName(), java.getMessage() or ""
    of_python = _PYTHON.findall(said) if "Traceback (most recent call last)" in said else []
    if of_python:
        return str(of_python[-1][1])
    if kind == "IllegalStateException" and said:  # Spark's own words for all kinds of things
        return str(said)
    return f"{_KNOWN.get(kind, kind)}: {said}" if said else _KNOWN.get(kind, kind)


def line(text: str) -> str:
    """On one line, without what follows the first paragraph."""
    found = " ".join(text.strip().split("\n\n")[0].split())
    return found if len(found) <= LONGEST else f"{found[:LONGEST]}…"
