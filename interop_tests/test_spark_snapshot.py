"""An archive and the log after it, read as one from the command line, without Spark: no gap, no double, whatever is deleted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import pytest
from pyspark.sql import SparkSession

from interop_tests.support.broker import Broker, clean_environment, external, running
from interop_tests.support.sparks import Produced, Sender, Sent, for_few_rows
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.transactions import transactional
from spark import archive as job

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("small"),
]
SECONDS = 60
PART = 1500  # records: more than a pipe holds
# As if Spark were not installed.
COMMAND = [
    sys.executable,
    "-c",
    "import sys; sys.modules['pyspark'] = None; from kompat.__main__ import main; sys.exit(main())",
    "consume",
    "--format",
    "json",
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if external() is not None:
        pytest.skip("archives are kompat's")
    with running(tmp_path_factory.mktemp("snapshot")) as started:
        yield started


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> Iterator[None]:
    with for_few_rows(spark):
        yield


class Archived:
    """A topic of two partitions, and its archive."""

    def __init__(self, broker: Broker, topics: Topics, home: Path) -> None:
        self.bootstrap = broker.bootstrap
        self.topics = topics
        self.topic = topics.create("joined", partitions=2)
        self.home = home / "archive"
        self.records: list[Produced] = []
        self._sender = Sender(broker.bootstrap)

    def send(self, count: int) -> None:
        first = len(self.records)
        sent = [Sent(b"value %d" % n, b"%d" % n, int(n % 5 == 0), (("n", None),)) for n in range(first, first + count)]
        self.records += self._sender.send(self.topic, sent)

    def archive(self) -> None:
        places = ["--archive", str(self.home), "--bootstrap-servers", self.bootstrap]
        assert job.main(["run", "--once", "--topics", self.topic, *places]) == 0

    def reading(self, *more: str) -> subprocess.Popen[str]:
        return self.consuming("--from-snapshot", str(self.home), *more)

    def consuming(self, *more: str) -> subprocess.Popen[str]:
        command = [*COMMAND, self.topic, "--bootstrap-server", self.bootstrap, *more]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
        )

    def read(self, *more: str) -> tuple[list[tuple[int, int, str]], str]:
        """What it prints, and what it says."""
        with self.reading(*more) as process:
            out, said = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, said
        return found(out.splitlines()), said

    def expected(self, starts: tuple[int, int] = (0, 0)) -> list[tuple[int, int, str]]:
        rows = [(r.partition, r.offset, (r.value or b"").decode()) for r in self.records]
        return sorted(row for row in rows if row[1] >= starts[row[0]])


def found(lines: Iterable[str]) -> list[tuple[int, int, str]]:
    records = [json.loads(line) for line in lines]
    return [(each["partition"], each["offset"], each["value"]) for each in records]


@pytest.fixture
def archived(broker: Broker, topics: Topics, tmp_path: Path) -> Archived:
    return Archived(broker, topics, tmp_path)


def test_the_archive_and_the_log_are_read_as_one(archived: Archived) -> None:
    archived.send(100)
    archived.archive()
    archived.send(50)
    archived.topics.delete_records(archived.topic, 0, before=60)

    assert archived.read("--include-deleted") == (archived.expected(), "")
    # Without it, only what the log still has.
    assert archived.read() == (archived.expected((60, 0)), "")
    assert archived.read("--include-deleted", "--partition", "0", "--offset", "70") == (
        [row for row in archived.expected((70, 0)) if row[0] == 0],
        "",
    )
    # Deleted before it was archived: the offsets are told, and the rest is there.
    archived.topics.delete_records(archived.topic, 1, before=25)
    rows, said = archived.read("--include-deleted")
    assert rows == [row for row in archived.expected() if row[0] == 0 or not 20 <= row[1] < 25]
    assert said == f"kompat: {archived.topic}/1: offsets 20 to 24 are neither archived nor in the log any more\n"


def test_what_was_aborted_is_in_neither_of_them(archived: Archived) -> None:
    writer = transactional(archived.bootstrap, fresh_name("id"))
    for turn in range(2):
        for number, commits in enumerate((True, False, True, False)):
            writer.begin_transaction()
            writer.produce(archived.topic, f"{turn} {number}".encode(), partition=0)
            writer.flush()
            writer.commit_transaction() if commits else writer.abort_transaction()
        if turn == 0:
            archived.archive()

    rows, said = archived.read("--include-deleted")
    assert ([value for _, _, value in rows], said) == (["0 0", "0 2", "1 0", "1 2"], "")


def test_nothing_is_lost_or_doubled_though_log_and_archive_change_under_the_reader(archived: Archived) -> None:
    """The reader knows of an archive and a log; while it reads, more is archived, the files are replaced, the log is deleted."""
    for _ in range(2):  # in two files
        archived.send(PART)
        archived.archive()
    archived.send(PART)
    with archived.reading("--include-deleted") as process:
        assert process.stdout is not None
        begin = next_lines(process.stdout, 1)  # and now it waits for who reads its output
        archived.archive()
        job.main(["compact", "--archive", str(archived.home), "--keep-hours", "0"])
        for partition in (0, 1):
            end = 1 + max(r.offset for r in archived.records if r.partition == partition)
            archived.topics.delete_records(archived.topic, partition, before=end - 10)
        rest, said = the_rest(process)

    assert found([*begin, *rest.splitlines()]) == archived.expected()
    assert (process.returncode, said) == (0, "")


def next_lines(stream: IO[str], count: int) -> list[str]:
    return [stream.readline() for _ in range(count)]


def the_rest(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Of somebody whose first lines were read: `communicate` would not know of what was read ahead with them."""
    assert process.stdout is not None
    assert process.stderr is not None
    printed, said = process.stdout.read(), process.stderr.read()
    process.wait(SECONDS)
    return printed, said


def test_what_was_deleted_under_the_reader_is_told_where_there_is_no_archive(archived: Archived) -> None:
    count = 3000
    Sender(archived.bootstrap).send(archived.topic, [Sent(b"x" * 2000) for _ in range(count)])  # more than it asks for
    with archived.consuming("--from-beginning", "--partition", "0") as process:
        assert process.stdout is not None
        begin = next_lines(process.stdout, 1)
        archived.topics.delete_records(archived.topic, 0, before=count - 10)
        rest, said = the_rest(process)

    told = re.fullmatch(rf"kompat: {archived.topic}/0: offsets (\d+) to (\d+) are not in the log any more\n", said)
    assert told is not None, said
    first, last = map(int, told.groups())
    offsets = [offset for _, offset, _ in found([*begin, *rest.splitlines()])]
    assert offsets == [*range(first), *range(last + 1, count)]
    assert last + 1 == count - 10


def test_a_topic_that_is_gone_is_read_from_its_archive(archived: Archived) -> None:
    archived.send(20)
    archived.archive()
    archived.topics.admin.delete_topics([archived.topic])[archived.topic].result(SECONDS)

    assert archived.read("--include-deleted") == (archived.expected(), "")
    with archived.reading() as process:
        _, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, said) == (1, f"kompat: topic {archived.topic} does not exist\n")


def test_an_archive_that_is_damaged_is_told(archived: Archived) -> None:
    archived.send(20)
    archived.archive()
    [first, *_] = sorted(archived.home.glob("records/*/*/*.parquet"))

    def refused() -> str:
        with archived.reading("--include-deleted") as process:
            _, said = process.communicate(timeout=SECONDS)
        assert process.returncode == 1
        assert len(said.splitlines()) == 1
        return said

    first.write_bytes(b"nothing that is Parquet")
    assert f"{first.relative_to(archived.home)} cannot be read" in refused()
    first.unlink()
    assert f"{first.relative_to(archived.home)} is part of the archive, and is not there" in refused()
