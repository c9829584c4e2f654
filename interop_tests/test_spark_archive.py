"""The archive: what is in it, and that it is put back as it was. What happens when all is killed: test_spark_crashes.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import clean_environment
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


def archived(place: Path, topic: str) -> list[Produced]:
    """Without Spark."""
    found = reader.load(place)
    return [
        Produced(r.topic, r.partition, r.offset, r.key, r.value, tuple(r.headers), r.timestamp)
        for index in range(PARTITIONS)
        for r in reader.read(place, found, (topic, index), Span(0, 1 << 62))
    ]


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


def test_what_goes_wrong_is_told_in_a_line(
    start_broker: StartBroker, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    topic, home = topics.create("failing", partitions=PARTITIONS), tmp_path / "archive"
    records = Sender(broker.bootstrap).send(topic, [Sent(None), Sent(b"", b"", 1), Sent(b"b", headers=(("h", None),))])

    def told(*arguments: str, status: int = 1) -> str:
        capsys.readouterr()
        assert job.main(arguments) == status
        said = capsys.readouterr().err.splitlines()
        assert status == 0 or len(said) == 1
        return said[-1]

    def run(place: Path, name: str = topic, **more: int) -> str:
        return told(*archive_command(broker.bootstrap, place, [name], "--once")[5:], **more)

    assert "there is no such topic" in run(home, "nowhere")
    assert "/proc/archive" in run(Path("/proc/archive"))
    assert "is not an archive" in told("show", "--archive", str(home))
    assert run(home, status=0) == "archive: 3 records"
    assert archived(home, topic) == records
    # A checkpoint that is damaged, and one that is gone.
    newest = max((home / job.CHECKPOINT / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
    newest.write_bytes(b"")
    newest.with_name(f".{newest.name}.crc").unlink()
    assert "remove it: nothing is archived twice" in run(home)
    subprocess.run(["rm", "-r", str(home / job.CHECKPOINT)], check=True)
    assert run(home, status=0) == "archive: 0 records, 3 were there"
    # A topic that was deleted, and one of the same name.
    topics.admin.delete_topics([topic])[topic].result(JOB_SECONDS)
    assert "there is no such topic" in run(home)
    topics.create_named(topic, PARTITIONS)
    topics.wait(topic, PARTITIONS)
    assert "may have been" in run(home)
    assert archived(home, topic) == records
    # A commit that is not one.
    (home / "_commits" / "00000000000000000002.json").write_bytes(b"{}")
    assert "00000000000000000002.json is not a commit of an archive" in run(home)
