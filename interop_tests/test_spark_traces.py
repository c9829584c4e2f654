"""The jobs over traces and dead letters: a history that real clients made, and the numbers that it gives by hand."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from interop_tests.support.broker import Broker, external, running
from interop_tests.support.clients.kcat import run
from interop_tests.support.command import Command
from interop_tests.support.group_settings import set_group
from interop_tests.support.groups import fresh_group
from interop_tests.support.members.host import Host
from interop_tests.support.sparks import Sender, Sent, figures, for_few_rows, rows, source
from interop_tests.support.topics import Topics
from interop_tests.support.wait import until
from spark import dlq, traces

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("small"),
]
SHARER = [sys.executable, "-W", "ignore", "-m", "interop_tests.support.members.sharer"]
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.max.record.lock.duration.ms": "3600000",  # what a member holds, it holds to the end of the test
    "group.share.record.lock.duration.ms": "3600000",
}
TRACED = (("kompat-trace", b"1"),)
DELAYED = (*TRACED, ("kompat-delay-ms", b"300"))
BEGIN = ["PRODUCED", "REPLICATED"]
LIMIT = 5  # deliveries
# What happens to a record with such a value, event by event.
STORIES = {
    "plain": [*BEGIN, "DELIVERED", "ACKNOWLEDGED"],
    "release": [*BEGIN, "DELIVERED", "RELEASED", "REDELIVERED", "ACKNOWLEDGED"],
    "reject": [*BEGIN, "DELIVERED", "REJECTED", "DEAD_LETTERED"],
    "again": [*BEGIN, "DELIVERED", *["RELEASED", "REDELIVERED"] * (LIMIT - 1), "RELEASED", "DEAD_LETTERED"],
    "delayed": [*BEGIN, "PARKED", "FIRED", "DELIVERED", "ACKNOWLEDGED"],
    "hold": [*BEGIN, "DELIVERED"],
}
COUNTS = {"plain": 12, "release": 3, "reject": 2, "again": 1, "delayed": 2, "hold": 1}
STAGES = {
    "REPLICATED": "publish",
    "FIRED": "park",
    "DELIVERED": "wait",
    "REDELIVERED": "wait",
    "ACKNOWLEDGED": "process",
    "RELEASED": "process",
    "REJECTED": "process",
    "DEAD_LETTERED": "dead letter",
}

Event = dict[str, Any]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if external() is not None:
        pytest.skip("traces are kompat's")
    with running(tmp_path_factory.mktemp("traces"), SETTINGS, http=True) as started:
        yield started


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> Iterator[None]:
    with for_few_rows(spark):
        yield


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    started = Host(SHARER, tmp_path / "sharer")
    yield started
    started.close()


def events(bootstrap: str, topic: str) -> list[Event]:
    """What `__kompat_trace` tells of a topic's records; those of each record in the order in which they were written."""
    return [event for event in all_events(bootstrap) if event["record"].startswith(f"{topic}/")]


def all_events(bootstrap: str) -> list[Event]:
    done = run("-C", "-b", bootstrap, "-t", traces.TOPIC, "-o", "beginning", "-e", "-q")
    return [json.loads(line) for line in done.stdout.splitlines()]


def stories(told: Sequence[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in told:
        found[event["record"]].append(event)
    return found


def reading(bootstrap: str, host: Host, topic: str, group: str) -> Sender:
    """There is a member that has begun to read, of a group with dead letters."""
    set_group(bootstrap, group, {"errors.deadletterqueue.topic.name": "dlq.<topic>"})
    sender = Sender(bootstrap)
    member = host.join(bootstrap, group, topic, config={"share.acknowledgement.mode": "explicit"})

    def has_begun() -> bool:
        sender.send(topic, [Sent(b"warm")])
        return bool(member.records)

    until(has_begun, "the member reads", seconds=60)
    return sender


def make_history(bootstrap: str, host: Host, topic: str, group: str) -> list[Event]:
    """Records of all kinds, one kind after the other; all that happens to them."""
    sender = reading(bootstrap, host, topic, group)
    told: list[Event] = []
    for kind, count in COUNTS.items():
        headers = DELAYED if kind == "delayed" else TRACED
        sender.send(topic, [Sent(kind.encode(), headers=headers) for _ in range(count)])
        goal = len(told) + count * len(STORIES[kind])

        def is_told(goal: int = goal) -> bool:
            told[:] = events(bootstrap, topic)
            return len(told) >= goal

        until(is_told, f"the stories of {count} × {kind}", seconds=60)
    shapes = sorted([event["event"] for event in story] for story in stories(told).values())
    assert shapes == sorted(STORIES[kind] for kind, count in COUNTS.items() for _ in range(count))
    return told


def by_hand(told: Sequence[Event]) -> dict[tuple[str | None, str], dict[str, int]]:
    """How long each stage took, by group: in these stories every stage begins with the event before its end."""
    times: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for story in stories(told).values():
        for before, event in pairwise(story):
            if event["event"] in STAGES:
                key = event.get("group"), STAGES[event["event"]]
                times[key].append(event["timestamp"] - before["timestamp"])
    return {key: figures(sorted(values)) for key, values in times.items()}


def report_numbers(out: Path) -> dict[str, Any]:
    page = (out / "report.html").read_text()
    assert "http" not in page.replace("http://www.w3.org", "")  # it needs nothing from elsewhere
    found = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page)
    assert found is not None
    numbers: dict[str, Any] = json.loads(found[1])
    return numbers


def test_the_numbers_of_the_report_are_those_computed_by_hand(
    spark: SparkSession, bootstrap: str, topics: Topics, host: Host, tmp_path: Path
) -> None:
    topic, group, out = topics.create("traced"), fresh_group(), tmp_path / "out"
    told = make_history(bootstrap, host, topic, group)
    to = f"{topic}-minutes"
    job = ["run", "--once", "--out", str(out), "--bootstrap-servers", bootstrap, "--to", to]
    limits = ["--delay", "0s", "--stuck", "1s", "--window", "1"]

    newest = max(event["timestamp"] for event in told)
    until(lambda: time.time() * 1000 > newest + 2500, "time passes", seconds=10)
    Sender(bootstrap).send(topics.create("later"), [Sent(b"later", headers=TRACED)])
    until(lambda: len(all_events(bootstrap)) == len(told) + 2, "it is told", seconds=60)
    assert traces.main([*job, *limits]) == 0
    assert traces.main(["report", "--out", str(out), "--window", "1"]) == 0

    numbers = report_numbers(out)
    totals = {each["group"]: each for each in numbers["totals"] if each["topic"] == topic}
    found = {(who, stage): times for who, each in totals.items() for stage, times in each["stages"].items()}
    assert found == by_hand(told)
    counts = totals[group]["counts"]
    assert (counts["redelivered"], counts["dead_lettered"], counts["stuck"]) == (3 + LIMIT - 1, 3, 1)
    assert (counts["acknowledged"], totals[group]["dead_letter_rate"]) == (17, 3 / 20)
    assert [(each["record"], each["state"]) for each in numbers["stuck"]] == [
        (record, "delivered") for record, story in stories(told).items() if len(story) == 3
    ]
    assert (numbers["bad"], numbers["late"], numbers["steps"]) == (0, 0, len(told) + 2 + 1)
    check_minutes(spark, bootstrap, to, out, topic, group)


def check_minutes(spark: SparkSession, bootstrap: str, to: str, out: Path, topic: str, group: str) -> None:
    """All that is over was written once, to the table and to the topic."""
    table = spark.read.parquet(str(out / "minutes")).drop("turn")
    published = [json.loads(record.value or b"") for record in rows(source(spark, bootstrap, subscribe=to))]
    keys = [(each["minute"], each["topic"], each.get("group")) for each in published]
    assert len(set(keys)) == len(keys)
    written = [json.loads(line) for line in table.toJSON().collect()]
    assert sorted(map(str, written)) == sorted(map(str, published))
    mine = [each for each in published if each["topic"] == topic and each.get("group") == group]
    assert sum(each["acknowledged"] for each in mine) == 17
    assert sum(each["stages"].get("process", {"count": 0})["count"] for each in mine) == 17 + 3 + 2 + LIMIT


def test_dead_letters_are_counted_by_cause_and_listed_and_those_on_the_list_go_back(
    spark: SparkSession, broker: Broker, topics: Topics, host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap = broker.bootstrap
    topic, group = topics.create("deadly"), fresh_group()
    make_letters(bootstrap, host, topic, group, {"reject": 3, "again": 2})
    letters = f"dlq.{topic}"
    Sender(bootstrap).send(letters, [Sent(b"nobody knows", headers=(("__dlq.errors.topic", b"x"),))])
    log = rows(source(spark, bootstrap, subscribe=letters))
    causes = {record.offset: dict(record.headers).get("__dlq.errors.message") for record in log}
    places = ["--bootstrap-servers", bootstrap, "--pattern", rf"dlq\.{topic}"]
    capsys.readouterr()

    assert dlq.main(["groups", *places, "--json", "--out", str(tmp_path / "out")]) == 0

    printed = capsys.readouterr()
    groups = [json.loads(line) for line in printed.out.splitlines()]
    assert [(each["count"], each["topic"], each["letters"], each["groups"]) for each in groups] == [
        (3, topic, letters, [group]),
        (2, topic, letters, [group]),
    ]
    for each, value in zip(groups, (b"reject", b"again"), strict=True):
        mine = [record for record in log if record.value == value]
        assert {causes[record.offset] for record in mine} == {each["cause"].encode()}
        assert (each["sample"]["offset"], each["sample"]["value"]) == (mine[-1].offset, value.decode())
    assert "1 records are no dead letters" in printed.err
    assert spark.read.parquet(str(tmp_path / "out" / "groups")).count() == 2
    assert [row["value"] for row in spark.read.parquet(str(tmp_path / "out" / "bad")).collect()] == [b"nobody knows"]

    assert dlq.main(["list", *places, "--cause", groups[0]["cause"], "--origin", topic]) == 0
    printed = capsys.readouterr()
    listed = [json.loads(line) for line in printed.out.splitlines()]
    assert [(each["topic"], each["partition"], each["offset"]) for each in listed] == [
        (letters, 0, record.offset) for record in log if record.value == b"reject"
    ]
    assert {(each["origin"]["topic"], each["origin"]["group"]) for each in listed} == {(topic, group)}

    # The list is what the broker is told to put back: those records, and no others, and no more than once.
    host.close()
    (tmp_path / "letters.jsonl").write_text(printed.out)
    before = len(rows(source(spark, bootstrap, subscribe=topic)))
    redrive = ("dlq", "redrive", letters, "--list", str(tmp_path / "letters.jsonl"))
    command = Command(bootstrap, broker.http_url)
    assert command(*redrive) == "redriven: 3\n"
    again = rows(source(spark, bootstrap, subscribe=topic))[before:]
    assert [(record.value, dict(record.headers)["kompat-redrive-count"]) for record in again] == [(b"reject", b"1")] * 3
    assert command("dlq", "redrive", letters, "--list", "-", stdin=printed.out.encode()) == "redriven: 0\n"
    assert "has no dead-letter records of dlq.other" in command.fails(
        "dlq", "redrive", "dlq.other", *redrive[3:], status=2
    )


def make_letters(bootstrap: str, host: Host, topic: str, group: str, kinds: dict[str, int]) -> None:
    sender = reading(bootstrap, host, topic, group)
    sender.send(topic, [Sent(kind.encode()) for kind, count in kinds.items() for _ in range(count)])
    wanted = sum(kinds.values())
    ends = ["-C", "-b", bootstrap, "-t", f"dlq.{topic}", "-o", "beginning", "-e", "-q"]
    until(
        lambda: f"dlq.{topic}" in Topics(bootstrap).names() and len(run(*ends).stdout.splitlines()) == wanted,
        "all letters are written",
        seconds=60,
    )
