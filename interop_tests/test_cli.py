"""The `kompat` command against a running broker, where Kafka's protocol will do: any broker."""

import base64
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from random import Random

import pytest
from confluent_kafka import Consumer

from interop_tests.support.command import Command
from interop_tests.support.topics import Topics, fresh_name
from interop_tests.support.wait import until

pytestmark = pytest.mark.timeout(300)  # every step is a process, and the machine may be busy

ODD = [b"", b" a b ", b"\x00\xff\xfe", "Grüße ☕".encode(), b'{"a": 1}', b"\x1b[31m", b"x" * 5000]


@pytest.fixture(scope="module")
def kompat(bootstrap: str) -> Command:
    return Command(bootstrap)


# -- topics and settings -----------------------------------------------------------------------------------------------
def test_the_life_of_a_topic(kompat: Command) -> None:
    name = fresh_name("cli")
    kompat("topics", "create", name, "--partitions", "2", "--config", "retention.ms=3600000")
    assert "already exists" in kompat.fails("topics", "create", name)
    assert kompat.json("topics", "create", name, "--if-not-exists") == {"created": []}
    assert kompat("topics", "create", name, "--if-not-exists") == f"{name} exists already\n"
    [listed] = kompat.json("topics", "list", "--search", name)
    assert (listed["name"], listed["partitions"], listed["underReplicated"]) == (name, 2, 0)

    kompat("topics", "configure", name, "--set", "cleanup.policy=compact", "--unset", "retention.ms")
    assert "no.such" in kompat.fails("topics", "configure", name, "--set", "no.such=1")
    kompat("topics", "grow", name, "--partitions", "3")
    assert "3 partition" in kompat.fails("topics", "grow", name, "--partitions", "1")
    kompat("produce", name, "--value", "x", "--key", "k", "--partition", "2")

    told = kompat.json("topics", "describe", name)
    assert told["configs"] == {"cleanup.policy": "compact"}
    assert [(each["partition"], each["endOffset"]) for each in told["partitions"]] == [(0, 0), (1, 0), (2, 1)]
    assert told["partitions"][2]["bytes"] > 0

    header, *rows = kompat("topics", "list", "--search", name).splitlines()
    assert (header.split("\t")[0], rows[0].split("\t")[:2]) == ("TOPIC", [name, "3"])
    kompat("topics", "delete", name)
    assert "does not exist" in kompat.fails("topics", "delete", name)


def test_who_sits_at_a_terminal_is_asked_before_a_topic_is_gone(kompat: Command, topics: Topics) -> None:
    name = topics.create("cli")
    for answer, status in ((b"n\n", 1), (b"\n", 1), (b"y\n", 0)):
        ours, theirs = os.openpty()
        os.write(ours, answer)
        done = subprocess.run(
            [sys.executable, "-m", "kompat", "topics", "delete", name],
            stdin=theirs,
            capture_output=True,
            env=kompat.environment,
            timeout=60,
            check=False,
        )
        os.close(ours)
        os.close(theirs)
        assert (done.returncode, b"all records in it? [y/N]" in done.stderr) == (status, True), done
        assert bool(kompat.json("topics", "list", "--search", name)) is (status == 1)


def test_settings_of_topics_brokers_and_groups(kompat: Command, topics: Topics) -> None:
    topic, group = topics.create("cli"), fresh_name("group")
    kompat("config", "set", "topic", topic, "retention.ms=7200000", "cleanup.policy=compact")
    kompat("config", "delete", "topic", topic, "cleanup.policy")
    assert topics.configs(topic) == {"retention.ms": "7200000"}
    found = {each["name"]: each for each in kompat.json("config", "describe", "topic", topic, "--all")}
    assert (found["retention.ms"]["value"], found["retention.ms"]["source"]) == ("7200000", "topic")
    assert len(found) > 20

    kompat("config", "set", "group", group, "consumer.session.timeout.ms=50000")
    [own] = [each for each in kompat.json("config", "describe", "group", group) if each["isOwn"]]
    assert (own["name"], own["value"]) == ("consumer.session.timeout.ms", "50000")
    kompat("config", "set", "broker", "all", "log.cleaner.threads=2")
    assert "log.cleaner.threads" in kompat("config", "describe", "broker")
    kompat("config", "delete", "broker", "all", "log.cleaner.threads")
    assert "log.cleaner.threads" not in kompat("config", "describe", "broker")
    assert "does not exist" in kompat.fails("config", "describe", "topic", "no-such-topic")
    assert "give the name of a topic" in kompat.fails("config", "describe", "topic", status=2)
    assert kompat.fails("config", "describe", "broker", "99").endswith("broker 99 does not exist")


# -- records -----------------------------------------------------------------------------------------------------------
def test_every_byte_comes_back(kompat: Command, topics: Topics) -> None:
    topic = topics.create("cli")
    lines = b"".join(value + b"\n" for value in ODD)

    kompat("produce", topic, stdin=lines)

    assert kompat.raw("consume", topic, "--from-beginning", "--format", "value") == lines
    assert kompat("consume", topic, "--from-beginning").isprintable() is False  # line breaks
    assert b"\x1b" not in kompat.raw("consume", topic, "--from-beginning")


def test_arguments_need_not_be_text(kompat: Command, topics: Topics) -> None:
    topic, odd = topics.create("cli"), os.fsdecode(b"\xff\xfe")

    kompat("produce", topic, "--key", odd, "--header", f"h={odd}", "--value", odd)

    [row] = kompat.lines("consume", topic, "--from-beginning")
    told = base64.b64encode(b"\xff\xfe").decode()
    assert (row["key"], row["value"], row["headers"][0]["value"]) == (told, told, told)
    assert "is not UTF-8" in kompat.fails("topics", "describe", odd, status=2)


def test_a_pipe_copies_a_topic(kompat: Command, topics: Topics) -> None:
    """Keys, values, headers, tombstones and timestamps, whatever is in them."""
    first, second = topics.create("cli"), topics.create("cli")
    sent = [
        {"key": None, "value": "plain", "timestamp": 1_700_000_000_000},
        {"key": base64.b64encode(b"\xff\x00").decode(), "keyEncoding": "base64", "value": None},
        {"key": "k", "value": base64.b64encode(b"\x80").decode(), "encoding": "base64", "headers": {"a": "b"}},
        {"key": "", "value": "", "headers": [{"name": "h", "value": "/w==", "encoding": "base64"}]},
    ]
    kompat("produce", first, "--json", stdin="".join(json.dumps(each) + "\n" for each in sent).encode())

    program = shlex.join([sys.executable, "-m", "kompat"])
    pipe = f"{program} consume {first} --from-beginning --json | {program} produce {second} --json"
    subprocess.run(["sh", "-c", pipe], env=kompat.environment, check=True, timeout=60)

    def told(topic: str) -> list[dict[str, object]]:
        rows = kompat.lines("consume", topic, "--from-beginning")
        return [{name: value for name, value in row.items() if name != "topic"} for row in rows]

    copied = told(second)
    assert copied == told(first)
    assert copied[0]["timestamp"] == 1_700_000_000_000
    assert (copied[1]["key"], copied[1]["keyEncoding"], copied[1]["value"]) == ("/wA=", "base64", None)
    assert copied[2]["headers"] == [{"name": "a", "value": "b"}]


def test_what_can_be_said_of_a_record(kompat: Command, topics: Topics, tmp_path: object) -> None:
    topic = topics.create("cli", 2)
    whole = f"{tmp_path}/whole"
    with open(whole, "wb") as file:
        file.write(b"two\nlines")

    shown = kompat("produce", topic, "--partition", "1", "--key", "k", "--header", "a=b=c", "--show", "--value", "x")
    kompat("produce", topic, "--whole", whole, "--partition", "1", "--timestamp", "2023-11-14T22:13:20Z")
    kompat("produce", topic, "--key-separator", ":", "--partition", "1", stdin=b"k:v:w\n")
    kompat("produce", topic, "--tombstone", "--key", "k", "--partition", "1")

    assert shown == f"{topic}/1/0\n"
    rows = kompat.lines("consume", topic, "--partition", "1", "--from-beginning")
    assert [(row["key"], row["value"]) for row in rows] == [("k", "x"), (None, "two\nlines"), ("k", "v:w"), ("k", None)]
    assert rows[0]["headers"] == [{"name": "a", "value": "b=c"}]
    assert rows[1]["timestamp"] == 1_700_000_000_000


def test_where_reading_begins_and_ends(kompat: Command, topics: Topics) -> None:
    topic = topics.create("cli")
    times = [1_700_000_000_000 + 1000 * at for at in range(5)]
    rows = [json.dumps({"value": f"v{at}", "timestamp": time}) for at, time in enumerate(times)]
    kompat("produce", topic, "--json", stdin="\n".join(rows).encode())

    def read(*where: str) -> str:
        return kompat("consume", topic, "--format", "{value}", *where).replace("\n", " ").strip()

    assert read("--offset", "3") == "v3 v4"
    assert read("--offset", "-2") == "v3 v4"
    assert read("--from-time", str(times[2]), "--to-time", str(times[4])) == "v2 v3"
    assert read("--to-time", str(times[1])) == "v0"
    assert read("--from-beginning", "--max", "2") == "v0 v1"
    assert "give a start position" in kompat.fails("consume", topic, status=2)
    assert "topic nowhere does not exist" in kompat.fails("consume", "nowhere", "--from-beginning")
    assert "no-such-format" in kompat.fails("consume", topic, "--format", "no-such-format", status=2)


def test_who_follows_gets_what_comes_until_interrupted(kompat: Command, topics: Topics) -> None:
    topic = topics.create("cli")
    kompat("produce", topic, "--value", "first")
    reading = kompat.start("consume", topic, "--offset", "0", "--follow", "--format", "value")
    try:
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"first\n"
        kompat("produce", topic, "--value", "second")
        assert reading.stdout.readline() == b"second\n"
        reading.send_signal(signal.SIGINT)
        _, said = reading.communicate(timeout=60)
    finally:
        reading.kill()
        reading.wait()
    assert (reading.returncode, said) == (130, b"")


@pytest.mark.parametrize("has_group", [False, True])
def test_an_interrupt_ends_who_follows_at_any_moment(kompat: Command, topics: Topics, *, has_group: bool) -> None:
    """An interrupt inside the client may leave one of the client's locks taken, and closing it waits for that lock for ever."""
    topic = topics.create("cli")
    kompat("produce", topic, stdin=b"x\n" * 100)
    random = Random(has_group)
    where = [("--group", fresh_name("group"), "--from-beginning") if has_group else ("--offset", "0") for _ in range(6)]
    reading = [kompat.start("consume", topic, *each, "--follow", "--format", "value") for each in where]
    try:
        for each in reading:
            assert each.stdout is not None
            assert each.stdout.readline() == b"x\n"
            time.sleep(random.uniform(0, 0.1))  # any moment will do
            each.send_signal(signal.SIGINT)
        ended = [(each.communicate(timeout=60)[1], each.returncode) for each in reading]
    finally:
        for each in reading:
            each.kill()
            each.wait()
    assert ended == [(b"", 130)] * len(reading)


def test_what_cannot_be_sent(kompat: Command, topics: Topics) -> None:
    topic = topics.create("cli", max_message_bytes=1000)

    assert "MESSAGE_TOO_LARGE" in kompat.fails("produce", topic, "--value", "x" * 5000)
    assert "line 2" in kompat.fails("produce", topic, "--json", stdin=b'{"value": "x"}\nnonsense\n')
    assert "no-such-file" in kompat.fails("produce", topic, "no-such-file")
    assert "partition 7" in kompat.fails("produce", topic, "--value", "x", "--partition", "7")
    assert "illegal" in kompat.fails("produce", "a/b", "--value", "x")
    assert "give only one of" in kompat.fails("produce", topic, "--delay", "1s", "--at", "1", status=2)


# -- groups ------------------------------------------------------------------------------------------------------------
def test_a_group_reads_on_where_it_was_left(kompat: Command, topics: Topics) -> None:
    topic, group = topics.create("cli"), fresh_name("group")
    kompat("produce", topic, stdin=b"0\n1\n2\n3\n4\n")

    def read(*more: str) -> list[str]:
        return kompat("consume", topic, "--group", group, "--format", "value", *more).split()

    assert read("--from-beginning", "--max", "2") == ["0", "1"]
    told = kompat.json("groups", "describe", group)
    assert (told["state"], told["lag"], told["offsets"][0]["committed"]) == ("Empty", 3, 2)
    assert read() == ["2", "3", "4"]
    [listed] = kompat.json("groups", "list", "--lag", "--search", group)
    assert (listed["type"], listed["lag"]) == ("classic", 0)


def test_a_group_is_reset_and_forgotten(kompat: Command, topics: Topics) -> None:
    topic, group = topics.create("cli"), fresh_name("group")
    kompat("produce", topic, stdin=b"0\n1\n2\n3\n4\n")
    reset = ("groups", "reset", group, "--topic", topic)
    assert f"group {group} does not exist: --create" in kompat.fails(
        *reset, "--to-latest"
    )  # it may be another's, misspelled
    assert kompat.json("groups", "list", "--search", group) == []
    kompat(*reset, "--to-latest", "--create")

    planned = kompat.json(*reset, "--shift", "-2", "--dry-run")["offsets"]
    assert [(each["from"], each["to"], each["clamped"]) for each in planned] == [(5, 3, False)]
    assert kompat.json(*reset, "--shift", "-2")["offsets"] == planned
    assert kompat.json("groups", "reset", group, "--all-topics", "--to-offset", "99")["offsets"] == [
        {"topic": topic, "partition": 0, "from": 3, "to": 5, "clamped": True}
    ]
    kompat(*reset, "--to-time", "2023-11-14T22:13:20Z")
    assert kompat.json("groups", "describe", group)["lag"] == 5
    assert "give --topic" in kompat.fails("groups", "reset", group, "--to-earliest", status=2)

    kompat("groups", "delete", group)
    assert group in kompat.fails("groups", "describe", group)
    assert "group does not exist" in kompat.fails("groups", "delete", group)


def test_a_group_with_members_is_described_and_left_alone(kompat: Command, bootstrap: str, topics: Topics) -> None:
    topic, group = topics.create("cli", 2), fresh_name("group")
    kompat("produce", topic, "--value", "x", "--partition", "1")
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "client.id": "somebody",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        member.subscribe([topic])
        got = until(lambda: member.poll(0.5), "the member reads", seconds=60)
        member.commit(got, asynchronous=False)
        told = kompat.json("groups", "describe", group)
        assert told["type"] == "consumer"
        assert told["members"][0]["assignments"] == [{"topic": topic, "partitions": [0, 1]}]
        assert [(each["partition"], each["lag"], each["member"]) for each in told["offsets"]] == [(1, 0, "somebody")]
        assert "stop them first" in kompat.fails("groups", "reset", group, "--topic", topic, "--to-earliest")
        assert "NON_EMPTY_GROUP" in kompat.fails("groups", "delete", group)
    finally:
        member.close()


# -- the cluster, users, measurements ----------------------------------------------------------------------------------
def test_a_cluster_of_one_is_looked_at(kompat: Command, topics: Topics) -> None:
    topic = topics.create("cli")
    assert kompat.json("cluster", "status", "--check")["healthy"] is True
    [broker] = kompat.json("cluster", "brokers")
    assert broker["isController"] is True
    assert broker["leads"] >= 1
    assert kompat.json("cluster", "raft")["leader"] == broker["id"]
    assert kompat.json("cluster", "elect", topic) == [
        {"topic": topic, "partition": 0, "outcome": "already led by the preferred replica"}
    ]
    assert kompat.json("cluster", "reassign", topic, "--to", str(broker["id"])) == []
    assert "4711" in kompat.fails("cluster", "reassign", topic, "--to", "4711")
    assert "nowhere does not exist" in kompat.fails("cluster", "elect", "nowhere")
    assert kompat.json("cluster", "reassign", "--list") == []
    assert "replicas" in kompat.fails("cluster", "unregister", str(broker["id"]))


def test_users_and_quotas(kompat: Command) -> None:
    user = fresh_name("user")
    kompat("users", "add", user, "--new-password-file", "-", stdin=b"secret\n")
    mine = [each for each in kompat.json("users", "list") if each["user"] == user]
    assert {each["mechanism"] for each in mine} == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    kompat("users", "remove", user)
    assert " does not exist" in kompat.fails("users", "remove", user)
    assert "cannot be empty" in kompat.fails("users", "add", user, "--new-password-file", "-", stdin=b"\n")

    kompat("quotas", "set", "--for", f"user={user}", "producer_byte_rate=1048576")
    mine = [each for each in kompat.json("quotas", "list") if each["entity"] == {"user": user}]
    assert [(each["quota"], each["value"]) for each in mine] == [("producer_byte_rate", 1048576)]
    kompat("quotas", "remove", "--for", f"user={user}", "producer_byte_rate")
    assert user not in kompat("quotas", "list")
    assert "user, client-id, ip" in kompat.fails("quotas", "set", "--for", "x=y", "a=1", status=2)
    assert "SECURITY_DISABLED" in kompat.fails("acls", "list")


@pytest.mark.parametrize("what", ["produce", "consume", "latency"])
def test_measurements(kompat: Command, what: str) -> None:
    found = kompat.json("bench", what, "--records", "50" if what == "latency" else "5000")

    assert found["records"] >= 50
    assert found["recordsPerSecond"] > 0
    if what == "latency":
        assert 0 < found["deliveredMs"]["p50"] <= found["deliveredMs"]["max"]
    assert "kompat-bench" not in kompat("topics", "list")


def test_the_doctor_finds_nothing_wrong(kompat: Command) -> None:
    found = kompat.json("doctor", "--no-http")

    assert found["healthy"] is True
    assert {each["about"] for each in found["findings"]} >= {
        "broker",
        "advertised address",
        "leaders",
        "metadata",
        "disk",
    }


def test_where_there_is_no_broker_it_is_said_at_once() -> None:
    nobody = Command("127.0.0.1:1,127.0.0.1:2")

    for arguments in (("topics", "list"), ("consume", "x", "--from-beginning"), ("produce", "x", "--value", "y")):
        assert "127.0.0.1:1: Connection refused; 127.0.0.1:2:" in nobody.fails(*arguments)
    assert "HTTP port cannot be reached" in nobody.fails("trace", "x")
    done = nobody.run("doctor", "--json")
    assert done.returncode == 1
    assert [each["level"] for each in json.loads(done.stdout)["findings"]] == ["wrong", "warning"]
