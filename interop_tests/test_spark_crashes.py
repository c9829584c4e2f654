"""Driver and broker are killed while topics are archived, told of and copied: afterwards nothing is missing, and nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from interop_tests.support.broker import Broker, clean_environment, external, running
from interop_tests.support.clients.kcat import run
from interop_tests.support.doomed_driver import (
    ARCHIVE,
    CHECKPOINT,
    PLAIN,
    TRACES,
    archive_arguments,
    plain_stream,
    trace_arguments,
)
from interop_tests.support.sparks import Produced, Sender, Sent, figures, for_few_rows, place, rows, source
from interop_tests.support.topics import Topics
from interop_tests.support.wait import until
from kompat.archive import reader
from kompat.archive.manifest import Span
from spark import archive, traces

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.timeout(600)]
ROOT = Path(__file__).parent.parent
SECONDS = 200  # on a busy machine a driver takes its time to start
PARTITIONS = 2
TRACED = (("kompat-trace", b"1"),)


class Trickle:
    """Produces until told to stop, through a restart of the broker; and traced records to a topic that nobody reads."""

    def __init__(self, broker: Broker, topic: str, traced: str) -> None:
        self._sender = Sender(broker.bootstrap, **{"enable.idempotence": True, "message.timeout.ms": 60_000})
        self._topic, self._traced = topic, traced
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent: list[Produced] = []
        self.traced: list[Produced] = []
        self.failure: BaseException | None = None

    def __enter__(self) -> Trickle:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.2):
                few = range(len(self.sent), len(self.sent) + 10)
                self.sent += self._sender.send(
                    self._topic,
                    [
                        Sent(
                            None if n % 7 == 0 else b"value %d" % n,
                            None if n % 3 == 0 else b"key",
                            n % PARTITIONS,
                            (("n", None),),
                        )
                        for n in few
                    ],
                )
                self.traced += self._sender.send(self._traced, [Sent(b"traced", headers=TRACED)])
        except BaseException as failure:  # noqa: BLE001 - told by the test's thread
            self.failure = failure


class Crashed(NamedTuple):
    """What was sent while all of it was killed, and where the jobs put it."""

    broker: Broker
    topic: str
    home: Path
    sent: list[Produced]
    traced: list[Produced]


@contextmanager
def driver(broker: Broker, topic: str, home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Killed at the end, with its JVM, and with no time to tidy up."""
    command = [sys.executable, "-W", "ignore", "-m", "interop_tests.support.doomed_driver", broker.bootstrap, topic]
    with (home / "driver.log").open("ab") as out:
        process = subprocess.Popen(
            [*command, str(home)], cwd=ROOT, stdout=out, stderr=out, env=clean_environment(), start_new_session=True
        )
    try:
        yield process
        assert process.poll() is None, (home / "driver.log").read_text()[-3000:]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


def batches(home: Path) -> tuple[int, int, int]:
    """How many each of the three has done."""
    done = (home / ARCHIVE / "_commits", home / CHECKPOINT / "commits")
    first, second = (sum(name.suffix != ".tmp" for name in each.glob("[0-9]*")) for each in done)
    turns = [int(name.stem) for name in (home / TRACES / "_turns").glob("[0-9]*.json")]  # old ones are forgotten
    return first, second, max(turns, default=-1)


def all_go_on(home: Path, process: subprocess.Popen[bytes]) -> None:
    before = batches(home)
    until(
        lambda: process.poll() is not None or all(now > then for now, then in zip(batches(home), before, strict=True)),
        "all three go on",
        seconds=SECONDS,
    )


@pytest.fixture(scope="module")
def crashed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crashed]:
    if external() is not None:
        pytest.skip("the broker under test is not ours to kill")
    home = tmp_path_factory.mktemp("crashes")
    with running(home / "broker") as broker, for_few_rows(spark):
        topic = Topics(broker.bootstrap).create("killed", partitions=PARTITIONS)
        traced = Topics(broker.bootstrap).create("traced")
        with Trickle(broker, topic, traced) as trickle, driver(broker, topic, home) as process:
            all_go_on(home, process)
            broker.kill()
            broker.start()
            all_go_on(home, process)
        assert trickle.failure is None
        finish(spark, broker.bootstrap, topic, home)
        yield Crashed(broker, topic, home, sorted(trickle.sent, key=place), trickle.traced)


def finish(spark: SparkSession, bootstrap: str, topic: str, home: Path) -> None:
    """Take what is still there."""
    assert archive.main([*archive_arguments(bootstrap, topic, home), "--once"]) == 0
    assert traces.main([*trace_arguments(bootstrap, topic, home), "--once"]) == 0
    assert plain_stream(spark, bootstrap, topic, home, availableNow=True).awaitTermination(SECONDS)


# -- the archive -------------------------------------------------------------------------------------------------------
def archived(crashed: Crashed) -> list[Produced]:
    """Without Spark."""
    at = crashed.home / ARCHIVE
    return [
        Produced(r.topic, r.partition, r.offset, r.key, r.value, tuple(r.headers), r.timestamp)
        for index in range(PARTITIONS)
        for r in reader.read(at, reader.load(at), (crashed.topic, index), Span(0, 1 << 62))
    ]


def test_the_archive_equals_the_log(spark: SparkSession, crashed: Crashed) -> None:
    log = rows(source(spark, crashed.broker.bootstrap, subscribe=crashed.topic))
    assert log == crashed.sent
    assert archived(crashed) == log
    # A second run writes nothing twice, and nothing at all.
    at = crashed.home / ARCHIVE
    commits = reader.load(at).next_number
    assert archive.main([*archive_arguments(crashed.broker.bootstrap, crashed.topic, crashed.home), "--once"]) == 0
    assert reader.load(at).next_number == commits

    # Many small files become few; the records stay the same, and nothing else is left.
    small = len(reader.load(at).files)
    assert small > 2
    assert archive.main(["compact", "--archive", str(at), "--keep-hours", "0"]) == 0
    assert len(reader.load(at).files) < small
    assert archived(crashed) == log
    left = sorted(str(path.relative_to(at)) for path in (at / "records").rglob("*.parquet"))
    assert left == sorted(reader.load(at).files)


# -- a plain stream ----------------------------------------------------------------------------------------------------
def test_a_plain_stream_goes_on_from_its_checkpoint(spark: SparkSession, crashed: Crashed) -> None:
    assert rows(spark.read.parquet(str(crashed.home / PLAIN))) == crashed.sent


# -- traces ------------------------------------------------------------------------------------------------------------
class Step(NamedTuple):
    record: str
    event: str
    at: int
    stage: str
    millis: int


def by_hand(crashed: Crashed) -> list[Step]:
    """Records that are only produced have one stage."""
    done = run("-C", "-b", crashed.broker.bootstrap, "-t", traces.TOPIC, "-o", "beginning", "-e", "-q")
    produced: dict[str, int] = {}
    steps = []
    for told in map(json.loads, done.stdout.splitlines()):
        stage, millis = "", -1
        if told["event"] == "PRODUCED":
            produced[told["record"]] = told["timestamp"]
        else:
            stage, millis = "publish", told["timestamp"] - produced.get(told["record"], told["timestamp"] + 1)
        steps.append(Step(told["record"], told["event"], told["timestamp"], stage, millis))
    return sorted(steps)


def minutes_by_hand(steps: list[Step]) -> dict[int, dict[str, Any]]:
    """Of those that are over; a second is a minute here."""
    newest, found = max(step.at for step in steps), defaultdict(list)
    for step in steps:
        if step.at // 1000 * 1000 + 1000 <= newest + 1:
            found[step.at // 1000 * 1000].append(step)
    return {second: _numbers(of_second) for second, of_second in found.items()}


def _numbers(steps: list[Step]) -> dict[str, Any]:
    times = sorted(step.millis for step in steps if step.stage and step.millis >= 0)
    return {
        "produced": sum(step.event == "PRODUCED" for step in steps),
        "replicated": sum(step.event == "REPLICATED" for step in steps),
        "unmatched": sum(bool(step.stage) and step.millis < 0 for step in steps),
        "stages": {"publish": figures(times)} if times else {},
    }


def test_the_tables_of_traces_are_those_computed_by_hand(spark: SparkSession, crashed: Crashed) -> None:
    expected = by_hand(crashed)
    traced = {f"{r.topic}/{r.partition}/{r.offset}" for r in crashed.traced}
    assert {step.record for step in expected} <= traced
    assert len(traced) * 1.5 < len(expected)  # a killed broker may have kept some for itself, but not many

    out = crashed.home / TRACES
    steps = spark.read.parquet(str(out / "steps")).collect()
    found = sorted(
        Step(
            row["record"],
            row["event"],
            round(row["at"].timestamp() * 1000),
            row["stage"] or "",
            -1 if row["millis"] is None else row["millis"],
        )
        for row in steps
    )
    assert found == expected

    minutes = [json.loads(line) for line in spark.read.parquet(str(out / "minutes")).drop("turn").toJSON().collect()]
    assert {each["topic"] for each in minutes} == {crashed.traced[0].topic}
    by_minute = minutes_by_hand(expected)
    written = spark.read.parquet(str(out / "minutes")).collect()
    assert len(written) == len(by_minute)  # none twice
    for row in written:
        told = row.asDict(recursive=True)
        wanted = by_minute[round(told["minute"].timestamp() * 1000)]
        assert {name: told[name] for name in wanted} == wanted
    # The topic may have some of them more than once, but never with other numbers.
    sent = rows(source(spark, crashed.broker.bootstrap, subscribe=f"{crashed.topic}-minutes"))
    assert {record.key: json.loads(record.value or b"") for record in sent} == {
        json.dumps({name: each[name] for name in ("minute", "topic")}, separators=(",", ":")).encode(): each
        for each in minutes
    }
