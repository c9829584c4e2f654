"""The archive: it equals the log, though driver and broker are killed while it is made, and is put back as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec
from pyspark.sql import SparkSession

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import Broker, clean_environment
from interop_tests.support.sparks import Produced, Sender, Sent, place, rows, source
from interop_tests.support.topics import Topics
from interop_tests.support.transactions import transactional
from interop_tests.support.wait import until
from kompat.archive import reader
from kompat.archive.manifest import Span
from spark import archive as job
from spark import replay

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.timeout(600)]
ROOT = Path(__file__).parent.parent
JOB_SECONDS = 200  # on a busy machine a driver takes its time to start
PARTITIONS = 2


def archive_command(bootstrap: str, place: Path, topics: Sequence[str], *more: str) -> list[str]:
    job = [sys.executable, "-m", "spark.archive", "--master", "local[1]", "run"]
    return [*job, "--archive", str(place), "--bootstrap-servers", bootstrap, "--topics", ",".join(topics), *more]


@contextmanager
def archiving(bootstrap: str, place: Path, topics: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A driver of its own, to be killed."""
    command = archive_command(bootstrap, place, topics, "--interval", "100 milliseconds", "--max-records", "300")
    with (place.parent / "driver.log").open("ab") as out:
        driver = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=out, env=clean_environment(), start_new_session=True
        )
    try:
        yield driver
    finally:
        kill_all(driver)


def kill_all(driver: subprocess.Popen[bytes]) -> None:
    """The driver and its JVM at once."""
    if driver.poll() is None:
        os.killpg(driver.pid, 9)
        driver.wait()


def archived(place: Path, topic: str) -> list[Produced]:
    """Without Spark."""
    found = reader.load(place)
    return [
        Produced(r.topic, r.partition, r.offset, r.key, r.value, tuple(r.headers), r.timestamp)
        for index in range(PARTITIONS)
        for r in reader.read(place, found, (topic, index), Span(0, 1 << 62))
    ]


def count(place: Path) -> int:
    return sum(each.rows for each in reader.load(place).files.values()) if (place / "_commits").is_dir() else 0


class Trickle:
    """Produces until told to stop, through a restart of the broker."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._sender = Sender(broker.bootstrap, **{"enable.idempotence": True, "message.timeout.ms": 60_000})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.failure: BaseException | None = None

    def __enter__(self) -> Trickle:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.02):
                few = range(self.sent, self.sent + 20)
                records = [Sent(b"value %d" % n, b"key", n % PARTITIONS, (("n", b"%d" % n),)) for n in few]
                self._sender.send(self._topic, records)
                self.sent += len(few)
        except BaseException as failure:  # noqa: BLE001 - told by the test's thread
            self.failure = failure


def test_the_archive_equals_the_log_though_driver_and_broker_are_killed(
    start_broker: StartBroker, spark: SparkSession, tmp_path: Path
) -> None:
    broker = start_broker()
    topic = Topics(broker.bootstrap).create("archived", partitions=PARTITIONS)
    place = tmp_path / "archive"
    with Trickle(broker, topic) as trickle:
        with archiving(broker.bootstrap, place, [topic]) as driver:
            until(lambda: count(place) > 0 or driver.poll() is not None, "something is archived", seconds=JOB_SECONDS)
            kill_all(driver)
        with archiving(broker.bootstrap, place, [topic]) as driver:
            before = count(place)
            until(lambda: count(place) > before or driver.poll() is not None, "it goes on", seconds=JOB_SECONDS)
            broker.kill()
            broker.start()
            again = count(place)
            until(lambda: count(place) > again or driver.poll() is not None, "and on", seconds=JOB_SECONDS)
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
            kill_all(driver)
    assert trickle.failure is None

    once = archive_command(broker.bootstrap, place, [topic], "--once")[5:]
    assert job.main(once) == 0
    commits = reader.load(place).next_number

    log = rows(source(spark, broker.bootstrap, subscribe=topic))
    assert len(log) == trickle.sent
    assert archived(place, topic) == log
    # A second run writes nothing twice, and nothing at all.
    assert job.main(once) == 0
    assert reader.load(place).next_number == commits

    # Many small files become few; the records stay the same, also for who is reading the old files.
    small = len(reader.load(place).files)
    assert small > 2
    job.main(["compact", "--archive", str(place), "--keep-hours", "0"])
    assert len(reader.load(place).files) < small
    assert archived(place, topic) == log
    left = sorted(str(path.relative_to(place)) for path in (place / "records").rglob("*.parquet"))
    assert left == sorted(reader.load(place).files)


def submitted(*arguments: str) -> str:
    """What a job prints that spark-submit runs."""
    binaries = Path(sys.executable).parent
    command = [str(binaries / "spark-submit"), "--master", "local[1]", str(ROOT / "spark" / "submit.py"), *arguments]
    environment = clean_environment(PATH=f"{binaries}{os.pathsep}{os.environ['PATH']}")
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=JOB_SECONDS)
    return done.stdout


def test_a_new_checkpoint_archives_nothing_twice(
    start_broker: StartBroker, spark: SparkSession, tmp_path: Path
) -> None:
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    names = [topics.create("archived", partitions=PARTITIONS) for _ in range(2)]
    sender = Sender(broker.bootstrap)
    home = tmp_path / "archive"
    expected: dict[str, list[Produced]] = {name: [] for name in names}
    for turn in range(2):
        for name in names:
            sent = [
                Sent(b"%d %d" % (turn, n), None, n % PARTITIONS, timestamp=1_000_000_000_000 + n * 10_000_000)
                for n in range(20)
            ]
            expected[name] = sorted(expected[name] + sender.send(name, sent), key=place)
        arguments = archive_command(broker.bootstrap, home, names, "--once")[5:]
        assert job.main(arguments) == 0
        subprocess.run(["rm", "-r", str(home / job.CHECKPOINT)], check=True)

    for name in names:
        assert archived(home, name) == expected[name]
    assert f"{sum(map(len, expected.values()))} records" in submitted("archive", "show", "--archive", str(home))


def test_aborted_records_are_not_archived(start_broker: StartBroker, spark: SparkSession, tmp_path: Path) -> None:
    broker = start_broker()
    topic = Topics(broker.bootstrap).create("archived", partitions=PARTITIONS)
    writer = transactional(broker.bootstrap, "archive")
    for number, commits in enumerate((False, True, False)):
        writer.begin_transaction()
        writer.produce(topic, b"%d" % number, partition=0)
        writer.flush()
        writer.commit_transaction() if commits else writer.abort_transaction()

    assert job.main(archive_command(broker.bootstrap, tmp_path / "archive", [topic], "--once")[5:]) == 0

    assert [record.value for record in archived(tmp_path / "archive", topic)] == [b"1"]


def consumed(*command: str) -> list[tuple[int, int]]:
    done = subprocess.run(
        [sys.executable, "-m", "kompat", *command], cwd=ROOT, check=True, capture_output=True, timeout=60
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [(each["partition"], each["offset"]) for each in found]


def log_start(topics: Topics, topic: str) -> dict[int, int]:
    wanted = {TopicPartition(topic, index): OffsetSpec.earliest() for index in range(PARTITIONS)}
    return {each.partition: future.result(20).offset for each, future in topics.admin.list_offsets(wanted).items()}


def content(record: Produced) -> tuple[object, ...]:
    return record.partition, record.key, record.value, record.headers, record.timestamp


def test_archived_records_are_put_back_as_they_were(
    start_broker: StartBroker, spark: SparkSession, tmp_path: Path
) -> None:
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    topic = topics.create("replayed", partitions=PARTITIONS)
    hour = 3_600_000
    delayed = (("kompat-delay-ms", b"1"), ("kind", b"late"))
    records = Sender(broker.bootstrap).send(
        topic,
        (
            Sent(
                None if n % 9 == 0 else b"value %d" % n,
                b"key %d" % (n % 3),
                n % PARTITIONS,
                (("kind", b"odd" if n % 2 else b"even"), ("none", None)),
                1_700_000_000_000 + n * hour // 2,
            )
            for n in range(100)
        ),
    )
    late = Sender(broker.bootstrap).send(topic, [Sent(b"late", b"key 0", 0, delayed)])
    until(
        lambda: len(rows(source(spark, broker.bootstrap, subscribe=topic))) == len(records) + len(late),
        "it is delivered",
    )
    home, log = tmp_path / "archive", rows(source(spark, broker.bootstrap, subscribe=topic))
    assert job.main(archive_command(broker.bootstrap, home, [topic], "--once")[5:]) == 0
    topics.delete_records(topic, 0, before=log[-1].offset)  # what is archived does not depend on it

    def replayed(name: str, *more: str) -> list[tuple[object, ...]]:
        to = f"{topic}-{name}"
        places = ("--archive", str(home), "--bootstrap-servers", broker.bootstrap)
        assert replay.main([*places, "--topic", topic, "--to", to, *more]) == 0
        return [content(record) for record in rows(source(spark, broker.bootstrap, subscribe=to))]

    everything = replayed("all", "--rate", "5000")
    assert everything == [content(record) for record in log]
    start, end = records[20].timestamp, records[30].timestamp
    timed = replayed("time", "--from-time", str(start), "--to-time", str(end))
    assert timed == [content(record) for record in log if start <= record.timestamp < end]
    ranged = replayed("offsets", "--offsets", "1:5-20", "--key", "key 1", "--header", "kind=odd")
    chosen = [
        r
        for r in log
        if r.partition == 1 and 5 <= r.offset < 20 and r.key == b"key 1" and ("kind", b"odd") in r.headers
    ]
    assert chosen
    assert ranged == [content(record) for record in chosen]
