"""Share groups (KIP-932): members on KafkaShareConsumer and confluent-kafka's ShareConsumer, and Kafka's tools for them."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import AnyBroker, external, running
from interop_tests.support.groups import fresh_group
from interop_tests.support.members.host import Member
from interop_tests.support.members.sharers import COMMANDS, EXPLICIT, Hosts
from interop_tests.support.topics import Topics
from interop_tests.support.wait import until
from interop_tests.support.worker import Worker, java_command

SETTINGS = {"group.share.assignment.interval.ms": "0"}
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    given = external()
    if given is not None:
        yield given
        return
    with running(tmp_path_factory.mktemp("shares"), SETTINGS) as started:
        yield started


Tool = Callable[..., str]


@pytest.fixture
def tool(java: Worker, bootstrap: str) -> Tool:
    def run(name: str, *arguments: str, to: str = bootstrap) -> str:
        args = ["--bootstrap-server", to, *arguments]
        request: dict[str, Any] = {"class": name, "args": args, "stdin": ""}
        ran = java.call("tool", to, **request)
        assert ran["status"] == 0, ran
        return str(ran["out"])

    return run


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    started = Hosts(tmp_path)
    yield started
    started.close()


@pytest.fixture(params=COMMANDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def group(tool: Tool) -> str:
    return earliest(tool, fresh_group())


def earliest(tool: Tool, group: str, *more: str, **options: str) -> str:
    """A group that reads what was there before it."""
    settings = ",".join(("share.auto.offset.reset=earliest", *more))
    tool(CONFIGS, "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", settings, **options)
    return group


def produce(bootstrap: str, topic: str, *values: str, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(30) == 0


def numbers(count: int, prefix: str = "") -> list[str]:
    return [f"{prefix}{index}" for index in range(count)]


def values(*members: Member) -> list[str]:
    return sorted(record.value for member in members for record in member.records)


def wait_values(wanted: list[str], *members: Member) -> None:
    until(lambda: values(*members) == sorted(wanted), f"{sorted(wanted)} are read", seconds=60)


def offsets(tool: Tool, group: str) -> dict[tuple[str, int], tuple[str, str]]:
    """Where kafka-share-groups says that a group stands, and how much is before it."""
    printed = tool(SHARE_GROUPS, "--describe", "--group", group)
    rows = [line.split() for line in printed.splitlines() if line.startswith(group)]
    return {(row[1], int(row[2])): (row[3], row[4]) for row in rows}


def wait_done(tool: Tool, group: str, topic: str) -> None:
    """Until the group is done with all records of partition 0: none of them can come again."""
    until(lambda: offsets(tool, group).get((topic, 0), ("", ""))[1] == "0", f"{group} is done", seconds=30)


# -- members -----------------------------------------------------------------------------------------------------------
def test_what_a_member_has_read_is_acknowledged_when_it_asks_for_more(
    kind: str, hosts: Hosts, topics: Topics, bootstrap: str, group: str
) -> None:
    topic = topics.create("share", partitions=3)
    for partition in range(3):
        produce(bootstrap, topic, *numbers(10, f"{partition}-"), partition=partition)
    host = hosts.start(kind)

    first = host.join(bootstrap, group, topic)
    wait_values([value for partition in range(3) for value in numbers(10, f"{partition}-")], first)
    host.leave(first)
    second = host.join(bootstrap, group, topic)
    produce(bootstrap, topic, "one more")

    wait_values(["one more"], second)
    assert {record.deliveries for record in (*first.records, *second.records)} == {1}
    assert first.problems == second.problems == []


def test_records_are_accepted_released_and_rejected_one_by_one(
    kind: str, hosts: Hosts, topics: Topics, bootstrap: str, group: str, tool: Tool
) -> None:
    topic = topics.create("share")
    produce(bootstrap, topic, "accept", "release-a", "reject", "release-b")
    host = hosts.start(kind)

    member = host.join(bootstrap, group, topic, config=EXPLICIT)
    wait_values(["accept", "reject", "release-a", "release-a", "release-b", "release-b"], member)
    wait_done(tool, group, topic)

    assert [record.deliveries for record in member.records if record.value == "release-a"] == [1, 2]
    host.leave(member)
    again = host.join(bootstrap, group, topic, config=EXPLICIT)
    produce(bootstrap, topic, "last")
    wait_values(["last"], again)
    assert member.problems == again.problems == []


def test_members_share_a_partition_and_each_record_is_one_members(
    kind: str, hosts: Hosts, topics: Topics, bootstrap: str, group: str
) -> None:
    topic = topics.create("share")
    host = hosts.start(kind)
    members = [host.join(bootstrap, group, topic, config=EXPLICIT | {"max.poll.records": 5}) for _ in range(2)]
    wanted: list[str] = []

    def both_have_some() -> bool:
        batch = numbers(20, f"{len(wanted)}-")
        produce(bootstrap, topic, *batch)
        wanted.extend(batch)
        return all(member.records for member in members)

    until(both_have_some, "both members have records", seconds=60)

    wait_values(wanted, *members)
    assert all(record.deliveries == 1 for member in members for record in member.records)


def test_kinds_of_members_work_in_one_group(hosts: Hosts, topics: Topics, bootstrap: str, group: str) -> None:
    topic = topics.create("share", partitions=2)
    members = [hosts.start(kind).join(bootstrap, group, topic, config=EXPLICIT) for kind in COMMANDS]
    wanted: list[str] = []

    def both_have_some() -> bool:
        for partition in range(2):
            batch = numbers(5, f"{partition}-{len(wanted)}-")
            produce(bootstrap, topic, *batch, partition=partition)
            wanted.extend(batch)
        return all(member.records for member in members)

    until(both_have_some, "both members have records", seconds=60)

    wait_values(wanted, *members)


def test_a_crashed_members_records_come_to_another(
    kind: str, hosts: Hosts, topics: Topics, bootstrap: str, group: str
) -> None:
    topic = topics.create("share")
    produce(bootstrap, topic, "done", "hold", "rest")
    doomed_host = hosts.start(kind)
    doomed = doomed_host.join(bootstrap, group, topic, config=EXPLICIT)
    wait_values(["done", "hold"], doomed)

    doomed_host.kill()
    heir = hosts.start(kind).join(bootstrap, group, topic)

    # It had not said anything of them: the first is not acknowledged before the batch is.
    until(lambda: {"done", "hold"} <= set(values(heir)), "the crashed member's records are read", seconds=60)
    assert {record.deliveries for record in heir.records} == {2}


def test_a_record_that_nobody_wants_is_given_up(
    kind: str, hosts: Hosts, topics: Topics, bootstrap: str, tool: Tool
) -> None:
    group = earliest(tool, fresh_group(), "share.delivery.count.limit=2")
    topic = topics.create("share")
    produce(bootstrap, topic, "again", "fine")

    member = hosts.start(kind).join(bootstrap, group, topic, config=EXPLICIT)

    wait_values(["again", "again", "fine"], member)
    wait_done(tool, group, topic)
    assert sorted(record.deliveries for record in member.records) == [1, 1, 2]


def test_a_group_begins_at_the_end_unless_it_is_told_otherwise(
    kind: str, hosts: Hosts, topics: Topics, bootstrap: str
) -> None:
    group = fresh_group()
    topic = topics.create("share")
    produce(bootstrap, topic, "before")
    member = hosts.start(kind).join(bootstrap, group, topic)

    def has_read() -> bool:
        produce(bootstrap, topic, "after")
        return bool(member.records)

    until(has_read, "what comes after it has begun is read", seconds=60)
    assert set(values(member)) == {"after"}


def test_acknowledgements_survive_the_death_of_the_broker(
    kind: str, start_broker: StartBroker, hosts: Hosts, tool: Tool
) -> None:
    own = start_broker(SETTINGS)
    group = earliest(tool, fresh_group(), to=own.bootstrap)
    topic = Topics(own.bootstrap).create("share")
    produce(own.bootstrap, topic, *numbers(10))
    host = hosts.start(kind)
    first = host.join(own.bootstrap, group, topic, config=EXPLICIT)
    until(lambda: first.acknowledged == 10, "all are acknowledged", seconds=60)
    produce(own.bootstrap, topic, "hold")
    wait_values([*numbers(10), "hold"], first)

    own.kill()
    own.start()
    second = hosts.start(kind).join(own.bootstrap, group, topic)

    wait_values(["hold"], second)


# -- tools -------------------------------------------------------------------------------------------------------------
def test_kafka_share_groups_lists_and_describes(
    hosts: Hosts, topics: Topics, bootstrap: str, group: str, tool: Tool
) -> None:
    topic = topics.create("share", partitions=2)
    produce(bootstrap, topic, *numbers(3))
    host = hosts.start("confluent")
    member = host.join(bootstrap, group, topic, config=EXPLICIT)
    until(lambda: member.acknowledged == 3, "all are acknowledged", seconds=60)

    assert group in tool(SHARE_GROUPS, "--list").split()
    assert re.search(rf"{group}\s+Stable", tool(SHARE_GROUPS, "--list", "--state"))
    wait_done(tool, group, topic)
    assert set(offsets(tool, group)) == {(topic, 0), (topic, 1)}
    [described] = [
        line for line in tool(SHARE_GROUPS, "--describe", "--group", group, "--members").splitlines() if topic in line
    ]
    assert f"{topic}:0,1" in described
    state = tool(SHARE_GROUPS, "--describe", "--group", group, "--state")
    assert re.search(rf"{group}\s+\S+\s+\(\d+\)\s+Stable\s+1", state), state


def test_kafka_share_groups_resets_and_deletes(
    hosts: Hosts, topics: Topics, bootstrap: str, group: str, tool: Tool
) -> None:
    topic = topics.create("share")
    produce(bootstrap, topic, *numbers(5))
    host = hosts.start("java")
    first = host.join(bootstrap, group, topic)
    wait_values(numbers(5), first)
    host.leave(first)
    wait_done(tool, group, topic)

    tool(SHARE_GROUPS, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert offsets(tool, group) == {(topic, 0): ("0", "5")}
    second = host.join(bootstrap, group, topic)
    wait_values(numbers(5), second)
    host.leave(second)

    tool(SHARE_GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    assert offsets(tool, group) == {}
    tool(SHARE_GROUPS, "--delete", "--group", group)
    assert group not in tool(SHARE_GROUPS, "--list").split()


def test_kafka_console_share_consumer_reads(topics: Topics, bootstrap: str, group: str) -> None:
    topic = topics.create("share")
    produce(bootstrap, topic, *numbers(5))

    options = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--max-messages", "5"]
    ran = subprocess.run([*java_command(CONSOLE), *options], capture_output=True, text=True, timeout=90, check=True)

    assert ran.stdout.split() == numbers(5)
