"""What jobs say when something goes wrong, without Spark."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from interop_tests.support.broker import free_port
from kompat.archive.manifest import ArchiveError
from spark import archive, dlq, replay, running, traces


class Java:
    """An exception of Java's, as Python sees it."""

    def __init__(self, kind: str, message: str | None, cause: Java | None = None) -> None:
        self._kind, self._message, self._cause = kind, message, cause

    def getClass(self) -> Java:  # noqa: N802 - Java's name
        return self

    def getSimpleName(self) -> str:  # noqa: N802 - Java's name
        return self._kind

    def getMessage(self) -> str | None:  # noqa: N802 - Java's name
        return self._message

    def getCause(self) -> Java | None:  # noqa: N802 - Java's name
        return self._cause


class SparkFailureError(Exception):
    def __init__(self, java: Java) -> None:
        super().__init__("pages of it")
        self.java_exception = java


@pytest.mark.parametrize(
    ("java", "told"),
    [
        (Java("IOException", "mkdir of\n file:/proc failed\n\n== plan =="), "IOException: mkdir of file:/proc failed"),
        (Java("StreamingQueryException", "x", Java("EOFException", None)), "EOFException"),
        (Java("UnknownTopicOrPartitionException", "gone"), "there is no such topic: gone"),
        (
            Java("AnalysisException", "Failed to find data source: kafka. Please deploy"),
            'Spark\'s Kafka connector is missing: spark-submit --jars "$(python -m spark.jars --print)" …',
        ),
        (
            Java("PythonException", "Traceback (most recent call last):\n  File x\nRuntimeError: not taken: full\n"),
            "not taken: full",
        ),
        (Java("SparkException", "x" * 1000), "SparkException: " + "x" * (running.LONGEST - 16) + "…"),
    ],
)
def test_the_innermost_cause_is_told_in_a_line(java: Java, told: str) -> None:
    assert running.reason(SparkFailureError(java)) == told


def test_what_a_job_says_itself_is_told_and_its_own_faults_are_not_hidden() -> None:
    assert running.reason(ArchiveError("commit 7 is missing")) == "commit 7 is missing"
    refused = KafkaException(KafkaError(KafkaError.TOPIC_EXCEPTION, "such a name"))
    assert running.reason(refused) == "such a name (TOPIC_EXCEPTION)"
    assert running.reason(ZeroDivisionError("a bug")) is None


@pytest.mark.parametrize(
    ("job", "arguments"),
    [
        (archive, ["run", "--archive", "x", "--topics", "orders"]),
        (traces, ["run", "--out", "x"]),
        (dlq, ["groups"]),
        (replay, ["--archive", "x", "--topic", "a", "--to", "b"]),
    ],
)
def test_a_broker_that_is_not_there_is_told_before_spark_starts(
    job: object, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert job.main([*arguments, "--bootstrap-servers", address]) == 1  # type: ignore[attr-defined]
    [line] = capsys.readouterr().err.splitlines()
    assert f"no broker can be reached at {address}" in line


@pytest.mark.parametrize(
    ("job", "arguments"),
    [
        (archive, ["run", "--archive", "x", "--topics", "orders", "--max-records", "0"]),
        (archive, ["run", "--archive", "x"]),
        (archive, ["run", "--archive", "x", "--topics", "a", "--pattern", "b"]),
        (archive, ["compact", "--archive", "x", "--target-mib", "0"]),
        (traces, ["run", "--out", "x", "--window", "0"]),
        (traces, ["run", "--out", "x", "--delay", "soon"]),
        (dlq, ["list", "--from-time", "yesterday"]),
        (replay, ["--archive", "x", "--topic", "a", "--to", "b", "--rate", "-1"]),
        (replay, ["--archive", "x", "--topic", "a", "--to", "b", "--offsets", "0:20-10"]),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    job: object, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        job.main(arguments)  # type: ignore[attr-defined]
    assert refused.value.code == 2
    assert "error: " in capsys.readouterr().err.splitlines()[-1]
