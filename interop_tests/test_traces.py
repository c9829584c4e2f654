"""The stories of single records, as stock clients make them and as stock consumers read them in `__kompat_trace`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer, TopicPartition

from interop_tests.conftest import StartBroker
from interop_tests.support.broker import AnyBroker, external, running
from interop_tests.support.clients.base import Message
from interop_tests.support.clients.confluent import producer
from interop_tests.support.clients.kcat import Kcat, run
from interop_tests.support.group_settings import set_group
from interop_tests.support.groups import fresh_group
from interop_tests.support.members.host import Host, Member
from interop_tests.support.topics import Topics
from interop_tests.support.wait import until

SHARER = [sys.executable, "-W", "ignore", "-m", "interop_tests.support.members.sharer"]
EXPLICIT = {"share.acknowledgement.mode": "explicit"}
SETTINGS = {"group.share.assignment.interval.ms": "0"}
TRACE_TOPIC = "__kompat_trace"
BEGIN = ["PRODUCED", "REPLICATED"]

Event = dict[str, Any]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    if external() is not None:
        pytest.skip("traces are kompat's")
    with running(tmp_path_factory.mktemp("traces"), SETTINGS) as started:
        yield started


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    started = Host(SHARER, tmp_path / "sharer")
    yield started
    started.close()


def send(bootstrap: str, topic: str, value: str, **headers: object) -> None:
    """By kcat; `delay_ms=5` is `-H kompat-delay-ms=5`."""
    named = tuple((_header(name), str(text).encode()) for name, text in headers.items())
    Kcat().produce(bootstrap, topic, [Message(key=b"k", value=value.encode(), headers=named)])


def _header(name: str) -> str:
    return name if name == "traceparent" else f"kompat-{name.replace('_', '-')}"


def events(bootstrap: str, topic: str) -> list[Event]:
    """What `__kompat_trace` tells of a topic's records, as kcat reads it, in the order of each story."""
    done = run("-C", "-b", bootstrap, "-t", TRACE_TOPIC, "-o", "beginning", "-e", "-q")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return [event for event in told if event["record"].startswith(f"{topic}/")]


def kinds(told: list[Event]) -> list[str]:
    return [event["event"] for event in told]


def wait_kinds(bootstrap: str, topic: str, *wanted: str) -> list[Event]:
    """Wait until this is the story, and give it."""
    told: list[Event] = []

    def is_told() -> bool:
        told[:] = events(bootstrap, topic)
        assert len(told) <= len(wanted), kinds(told)
        return len(told) == len(wanted)

    until(is_told, f"{topic} has {len(wanted)} events", seconds=30)
    assert kinds(told) == list(wanted)
    return told


def reading(bootstrap: str, host: Host, group: str, topic: str) -> Member:
    """A member of a share group that has begun to read, and that has dead letters."""
    set_group(bootstrap, group, {"errors.deadletterqueue.topic.name": "dlq.<topic>"})
    member = host.join(bootstrap, group, topic, config=EXPLICIT)

    def has_begun() -> bool:
        send(bootstrap, topic, "warm")
        return bool(member.records)

    until(has_begun, "the member reads", seconds=60)
    return member


def test_the_whole_story_of_a_record_that_is_delayed_released_and_acknowledged(
    bootstrap: str, topics: Topics, host: Host
) -> None:
    topic, group = topics.create("traced"), fresh_group()
    member = reading(bootstrap, host, group, topic)

    send(bootstrap, topic, "release-me", trace=1, delay_ms=300, msg_id="order-7")

    told = wait_kinds(
        bootstrap,
        topic,
        *BEGIN,
        *("PARKED", "FIRED", "DELIVERED", "RELEASED", "REDELIVERED", "ACKNOWLEDGED"),
    )
    assert len({(event["trace_id"], event["record"], event["message_id"]) for event in told}) == 1
    assert told[0]["message_id"] == "order-7"
    assert told[0]["client_id"] == "rdkafka"
    slot, fired = told[0]["offset"], told[3]["to_offset"]
    assert told[3]["to_topic"] == topic
    assert [event["offset"] for event in told] == [slot] * 4 + [fired] * 4
    assert [event["timestamp"] for event in told] == sorted(event["timestamp"] for event in told)
    assert told[3]["timestamp"] >= told[2]["due"] >= told[0]["timestamp"] + 300
    assert {(event["group"], event["member_id"]) for event in told[4:]} == {(group, told[4]["member_id"])}
    assert [event.get("delivery_count") for event in told[4:]] == [1, None, 2, None]
    assert [record.deliveries for record in member.records if record.value == "release-me"] == [1, 2]


def test_a_poison_record_is_followed_into_its_dead_letter_topic(bootstrap: str, topics: Topics, host: Host) -> None:
    topic = topics.create("poison")
    reading(bootstrap, host, fresh_group(), topic)

    send(bootstrap, topic, "reject-me", trace=1)
    told = wait_kinds(bootstrap, topic, *BEGIN, "DELIVERED", "REJECTED", "DEAD_LETTERED")
    letter = told[-1]
    assert (letter["to_topic"], letter["reason"]) == (f"dlq.{topic}", "rejected")

    [found] = Kcat().consume(bootstrap, letter["to_topic"], 0, start=letter["to_offset"], count=1)
    assert found.value == b"reject-me"
    told = wait_kinds(bootstrap, topic, *BEGIN, "DELIVERED", "REJECTED", "DEAD_LETTERED", "DELIVERED")
    assert told[-1]["topic"] == letter["to_topic"]
    assert len({event["trace_id"] for event in told}) == 1


def test_a_plain_groups_fetch_and_commit_are_told_of_and_kafka_python_reads_them(
    bootstrap: str, topics: Topics
) -> None:
    topic, group = topics.create("plain"), fresh_group()
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    for value in ("before", "after"):
        send(bootstrap, topic, value)
        if value == "before":
            send(bootstrap, topic, "traced", traceparent=f"00-{trace_id}-00f067aa0ba902b7-01")
    send(bootstrap, topic, "not sampled", traceparent=f"00-{trace_id}-00f067aa0ba902b7-00")
    settings = {"group.id": group, "client.id": "shop", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    member = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    member.subscribe([topic])
    assert [message.value() for message in member.consume(4, 30)] == [b"before", b"traced", b"after", b"not sampled"]
    member.commit(asynchronous=False)
    member.close()

    told = wait_kinds(bootstrap, topic, *BEGIN, "DELIVERED", "COMMITTED_PAST")

    assert {(event["trace_id"], event["parent_span_id"]) for event in told} == {(trace_id, "00f067aa0ba902b7")}
    assert (told[2]["client_id"], told[3]["group"]) == ("shop", group)
    assert {event["offset"] for event in told} == {1}
    reader = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    reader.assign([TopicPartition(TRACE_TOPIC, index) for index in reader.partitions_for_topic(TRACE_TOPIC)])
    found = []
    for record in reader:
        if json.loads(record.value)["record"].startswith(f"{topic}/"):
            found.append(record)
            if len(found) == len(told):
                break
    reader.close()
    assert [json.loads(record.value) for record in found] == told
    assert {(record.key, record.partition) for record in found} == {(trace_id.encode(), found[0].partition)}
    assert [record.timestamp for record in found] == [event["timestamp"] for event in told]


def test_a_topics_rate_traces_so_many_of_its_records(bootstrap: str, topics: Topics) -> None:
    topic = topics.create("sampled", kompat_trace_sample=0.1)
    sender = producer(bootstrap, **{"linger.ms": 20})
    for number in range(200):
        sender.produce(topic, str(number).encode(), partition=0)
    assert sender.flush(30) == 0

    told = events_of(bootstrap, topic, 40)

    produced = [event["offset"] for event in told if event["event"] == "PRODUCED"]
    assert sorted(produced) == list(range(9, 200, 10))
    assert len({event["trace_id"] for event in told}) == 20


def events_of(bootstrap: str, topic: str, count: int) -> list[Event]:
    until(lambda: len(events(bootstrap, topic)) >= count, f"{count} events of {topic}", seconds=30)
    return events(bootstrap, topic)


def test_a_story_goes_on_after_the_broker_was_killed(start_broker: StartBroker) -> None:
    own = start_broker(SETTINGS)
    topic = Topics(own.bootstrap).create("killed")
    send(own.bootstrap, topic, "there", trace=1)
    send(own.bootstrap, topic, "later", trace=1, delay_ms=1500)
    before = events_of(own.bootstrap, topic, 5)

    own.kill()
    own.start()
    until(lambda: "FIRED" in kinds(events(own.bootstrap, topic)), "the delayed record is delivered", seconds=30)
    found = Kcat().consume(own.bootstrap, topic, 0, start=0, count=2)

    assert [record.value for record in found] == [b"there", b"later"]
    after = events_of(own.bootstrap, topic, 8)
    assert [event for event in after if event in before] == before
    stories = {name: [e["event"] for e in after if e["record"] == f"{topic}/0/{name}"] for name in (0, 1)}
    assert stories == {0: [*BEGIN, "DELIVERED"], 1: [*BEGIN, "PARKED", "FIRED", "DELIVERED"]}
    assert len({event["trace_id"] for event in after}) == 2
