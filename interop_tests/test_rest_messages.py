"""Messages by HTTP: sent, read, searched and followed, through a broker of three that has nothing of the topic itself."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop_tests.support.broker import external, running
from interop_tests.support.cluster import Cluster, cluster_of
from interop_tests.support.groups import fresh_group
from interop_tests.support.rest import SECONDS, Door, values
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if external() is not None:
        pytest.skip("the door is kompat's own")
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.replication.factor": "1"}
    with cluster_of(tmp_path_factory.mktemp("cluster"), 3, settings, http=True) as cluster:
        yield cluster


@pytest.fixture
def door(three: Cluster) -> Iterator[Door]:
    """Of the broker that leads nothing."""
    with contextlib.closing(Door(three.brokers[3].http_url)) as found:
        yield found


@pytest.fixture
def topic(three: Cluster, door: Door) -> str:
    """Three partitions without copies, on the first two brokers."""
    name = fresh_name("rest")
    door.post("/v1/topics", {"name": name, "assignments": [[1], [2], [1]]}, status=201)
    three.wait_led(name, 3)
    return name


def read_by_kafka(three: Cluster, topic: str, count: int) -> dict[bytes | None, Any]:
    consumer = Consumer({"bootstrap.servers": three.bootstrap, "group.id": fresh_group(), "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    found: dict[bytes | None, Any] = {}
    until(lambda: _poll(consumer, found) >= count, f"{count} records", seconds=SECONDS)
    consumer.close()
    return found


def _poll(consumer: Consumer, found: dict[bytes | None, Any]) -> int:
    for message in consumer.consume(100, 0.5):
        if message.error() is None:
            found[message.value()] = message
    return len(found)


def test_what_is_sent_is_what_kafka_clients_read_in_the_partitions_that_they_would_have_chosen(
    three: Cluster, door: Door, topic: str
) -> None:
    raw = bytes(range(256))
    results = door.send(
        topic,
        {"key": "alpha", "value": "one", "headers": {"who": "me", "nothing": None}},
        {"key": base64.b64encode(raw).decode(), "keyEncoding": "base64", "value": "two"},
        {"value": base64.b64encode(raw).decode(), "encoding": "base64", "partition": 2, "timestamp": 1_700_000_000_000},
        {"key": "gone", "value": None, "headers": [{"name": "raw", "value": "/w==", "encoding": "base64"}]},
        {"value": "urgent", "priority": "high", "ttl": "1h", "partition": 0, "messageId": "m-1"},
    )
    found = read_by_kafka(three, topic, 5)

    for result, message in zip(
        results, [found[b"one"], found[b"two"], found[raw], found[None], found[b"urgent"]], strict=True
    ):
        assert (message.partition(), message.offset()) == (result["partition"], result["offset"])
    producer = Producer({"bootstrap.servers": three.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    chosen: dict[bytes, int] = {}
    for key in (b"alpha", raw):
        producer.produce(topic, b"again", key, on_delivery=lambda _, m: chosen.update({m.key(): m.partition()}))
    producer.flush(SECONDS)
    assert chosen == {b"alpha": results[0]["partition"], raw: results[1]["partition"]}
    assert found[b"one"].headers() == [("who", b"me"), ("nothing", None)]
    assert found[None].headers() == [("raw", b"\xff")]
    assert found[raw].timestamp()[1] == 1_700_000_000_000
    assert dict(found[b"urgent"].headers()) == {
        "kompat-priority": b"high",
        "kompat-ttl-ms": b"3600000",
        "kompat-msg-id": b"m-1",
    }


def test_what_cannot_be_taken_says_why_and_the_rest_is_taken(door: Door, topic: str) -> None:
    results = door.send(topic, {"value": "good", "partition": 0}, {"value": "x" * 2_000_000, "partition": 1})
    assert results[0]["offset"] == 0
    assert (results[1]["error"]["code"], results[1]["error"]["status"]) == ("MESSAGE_TOO_LARGE", 413)
    [good, late] = door.send(topic, {"value": "good"}, {"value": "never", "delay": "forever"})
    assert "error" not in good
    assert "forever" in late["error"]["detail"]
    for message, why in (
        ({"value": "v", "delay": "1s", "deliverAt": 5}, "cannot have both"),
        ({"value": "v", "partition": 3}, "no partition 3"),
        ({"value": "///", "encoding": "base64"}, "not base64"),
        ({"value": "v", "colour": "red"}, "colour"),
    ):
        problem = door.post(f"/v1/topics/{topic}/messages", {"messages": [message]}, status=400)
        assert why in problem["detail"]
    door.post(f"/v1/topics/{topic}/messages", {"messages": []}, status=400)
    door.post("/v1/topics/no-such-topic/messages", {"messages": [{"value": "v"}]}, status=404)


def test_pages_have_all_of_a_topic_in_order_forward_and_backward_by_offset_time_key_and_text(
    door: Door, topic: str
) -> None:
    start = 1_700_000_000_000
    sent = [{"key": f"k{n % 4}", "value": f"v{n:02}", "timestamp": start + n, "partition": n % 3} for n in range(30)]
    door.send(topic, *sent)
    expected = [each["value"] for each in sent]

    assert values(door.messages(topic, limit=7)) == expected
    assert values(door.messages(topic, limit=7, direction="backward")) == expected[::-1]
    assert values(door.messages(topic, limit=7, maxBytes=1)) == expected
    assert values(door.messages(topic, fromTime=start + 5, toTime="2023-11-14T22:13:20.009Z")) == expected[5:9]
    assert values(door.messages(topic, key="k2", limit=3)) == expected[2::4]
    assert values(door.messages(topic, search="V1")) == expected[10:20]
    assert values(door.messages(topic, partition=1, offset=8)) == ["v25", "v28"]
    assert values(door.messages(topic, partition=1, offset=1, direction="backward")) == ["v04", "v01"]
    assert door.messages(topic, offset="latest") == []

    one = door.get(f"/v1/topics/{topic}/partitions/1/messages/2")
    assert (one["value"], one["key"], one["timestamp"]) == ("v07", "k3", start + 7)
    page = door.get(f"/v1/topics/{topic}/partitions/2/messages", offset=3, limit=2)
    assert (values(page["items"]), page["nextOffset"]) == (["v11", "v14"], 5)
    page = door.get(f"/v1/topics/{topic}/partitions/2/messages", from_time=start + 20, to_time=start + 26)
    assert values(page["items"]) == ["v20", "v23"]
    door.get(f"/v1/topics/{topic}/partitions/2/messages/99", status=404)
    door.get(f"/v1/topics/{topic}/partitions/9/messages", status=404)


def test_a_range_of_times_has_all_of_its_messages_when_producers_clocks_differ(door: Door, topic: str) -> None:
    start = 1_700_000_000_000
    times = {"early": 1, "first": 10, "ahead": 90, "second": 15, "far ahead": 99, "behind": 2, "third": 12}
    for value, time in times.items():
        door.send(topic, {"value": value, "timestamp": start + time, "partition": 0})
    span = start + 10, start + 90

    forward = door.messages(topic, fromTime=span[0], toTime=span[1])
    backward = door.messages(topic, fromTime=span[0], toTime=span[1], direction="backward")
    page = door.get(f"/v1/topics/{topic}/partitions/0/messages", from_time=span[0], to_time=span[1])

    assert values(forward) == values(page["items"]) == ["first", "second", "third"]
    assert values(backward) == ["third", "second", "first"]


def test_only_what_is_committed_is_read_unless_asked_otherwise(three: Cluster, door: Door, topic: str) -> None:
    for ends_well in (False, True):
        producer = Producer({"bootstrap.servers": three.bootstrap, "transactional.id": fresh_group(), "log_level": 0})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce(topic, b"kept" if ends_well else b"undone", partition=0)
        producer.flush(SECONDS)
        (producer.commit_transaction if ends_well else producer.abort_transaction)(SECONDS)

    until(lambda: values(door.messages(topic)) == ["kept"], "the transaction is committed", seconds=SECONDS)
    assert values(door.messages(topic, direction="backward")) == ["kept"]
    assert values(door.messages(topic, isolation="uncommitted")) == ["undone", "kept"]
    assert door.tail(topic, **{"from": "earliest"}).take(1) == ["kept"]


def test_a_tail_has_what_comes_and_goes_on_where_its_client_stood(door: Door, topic: str) -> None:
    door.send(topic, {"value": "before", "partition": 0})
    tail = door.tail(topic)
    for number in range(6):
        door.send(topic, {"value": f"v{number}", "partition": number % 3})
    expected = [f"v{number}" for number in range(6)]
    assert sorted(tail.take(6)) == expected

    again = door.tail(topic, last_id=tail.ids[2])  # what was told with the second message
    assert sorted(values(tail.messages[:2]) + again.take(4)) == expected
    assert door.tail(topic, **{"from": "earliest", "partition": 0}).take(3) == ["before", "v0", "v3"]
    assert door.tail(topic, **{"from": "1", "partition": 1}).take(1) == ["v4"]
    refused = door.client.get(f"/v1/topics/{topic}/tail", headers={"last-event-id": "rubbish"})
    assert refused.status_code == 400

    door("DELETE", f"/v1/topics/{topic}", status=204)
    assert tail.wait_end()[-1] == "end"


def test_the_number_of_tails_is_limited_and_they_end_with_the_broker(tmp_path: Path) -> None:
    if external() is not None:
        pytest.skip("the door is kompat's own")
    with (
        running(tmp_path, {"kompat.http.max.streams": "2"}, http=True) as broker,
        contextlib.closing(Door(broker.http_url)) as door,
    ):
        door.post("/v1/topics", {"name": "t"}, status=201)
        tails = [door.tail("t") for _ in range(2)]
        assert "kompat.http.max.streams" in door.get("/v1/topics/t/tail", status=503)["detail"]
        tails[0].close()

        def has_room() -> bool:
            with contextlib.suppress(AssertionError):
                tails.append(door.tail("t"))
                return True
            return False

        until(has_room, "there is room for another", seconds=SECONDS)
        assert broker.stop() == 0
        assert [tail.wait_end() for tail in tails[1:]] == [["end"], ["end"]]


def test_what_waits_is_listed_inspected_put_off_and_cancelled(door: Door, topic: str) -> None:
    results = door.send(
        topic,
        *({"value": f"v{n}", "partition": n, "delay": f"{n + 1}h", "scheduleId": f"s{n}"} for n in range(3)),
        {"value": "now", "partition": 1},
    )
    assert [result["offset"] for result in results] == [0, 0, 0, 1]
    place = f"/v1/topics/{topic}/delayed"
    items = door.all(place, limit=2)
    assert [(item["value"], item["partition"], item["scheduleId"], item["state"]) for item in items] == [
        (f"v{n}", n, f"s{n}", "waiting") for n in range(3)
    ]
    assert items[0]["dueTimestamp"] < items[1]["dueTimestamp"] < items[2]["dueTimestamp"]
    soon = items[1]["dueTimestamp"]
    assert values(door.all(place, to=soon)) == ["v0"]
    assert values(door.all(place, partition=2, **{"from": soon})) == ["v2"]

    assert door.get(f"{place}/2/0")["value"] == "v2"
    assert door("DELETE", f"{place}/2/0")["value"] == "v2"
    door("DELETE", f"{place}/2/0", status=404)
    door.get(f"{place}/0/7", status=404)
    assert door("PATCH", f"{place}/1/0", {"delay": "5h"})["dueTimestamp"] > items[2]["dueTimestamp"]
    timeline = door.get(f"{place}/timeline", buckets=2, to=items[2]["dueTimestamp"])
    assert (timeline["isWhole"], sum(bucket["count"] for bucket in timeline["items"])) == (True, 1)
    figures = door.get("/v1/delayed/statistics", topic=topic)
    assert (figures["waiting"], figures["nextDueTimestamp"]) == (2, items[0]["dueTimestamp"])
    assert "kompat.delay.max.ms" in door("PATCH", f"{place}/1/0", {"delay": "9999h"}, status=400)["detail"]
    door("PATCH", f"{place}/1/0", {}, status=400)
    assert {"topic": topic, **figures} in door.all("/v1/delayed")
    assert door("PATCH", f"{place}/0/0", {"deliverAt": 0})["value"] == "v0"  # even if it is delivered before the answer
    until(lambda: "v0" in values(door.messages(topic)), "it is delivered", seconds=SECONDS)


def test_a_topic_of_many_partitions_is_read_to_its_end(tmp_path: Path) -> None:
    if external() is not None:
        pytest.skip("the door is kompat's own")
    sent = [f"{number}" for number in (0, 255, 256, 257, 599)]
    with running(tmp_path, http=True) as broker, contextlib.closing(Door(broker.http_url)) as door:
        door.post("/v1/topics", {"name": "wide", "partitions": 600}, status=201)
        door.send("wide", *({"value": each, "partition": int(each)} for each in sent for _ in range(3)))
        door.send("wide", *({"value": each, "partition": int(each), "delay": "1h"} for each in sent))

        for query in ({"limit": 2}, {"limit": 2, "direction": "backward"}, {"limit": 1000}):
            assert sorted(values(door.messages("wide", **query))) == sorted(sent * 3)
        assert sorted(values(door.all("/v1/topics/wide/delayed", limit=1))) == sorted(sent)
        door.get("/v1/topics/wide/messages", cursor="600.", status=400)


def test_a_story_is_told_by_any_broker_by_its_id_its_message_and_its_place(
    three: Cluster, door: Door, topic: str
) -> None:
    [result] = door.send(topic, {"value": "v", "partition": 1, "trace": True, "messageId": topic})
    assert door.tail(topic, **{"from": "earliest"}).take(1) == ["v"]
    place = f"/v1/topics/{topic}/partitions/1/messages/{result['offset']}/trace"

    def told() -> list[str]:
        return [event["kind"] for event in door.get(place)["events"]]

    until(lambda: told() == ["PRODUCED", "REPLICATED", "DELIVERED"], "its story is told", seconds=SECONDS)
    for broker in three.brokers.values():
        with contextlib.closing(Door(broker.http_url)) as any_door:
            story = any_door.get(place)
            assert (story["record"], story["messageId"]) == ({"topic": topic, "partition": 1, "offset": 0}, topic)
            for name in (story["traceId"], topic):
                assert any_door.get(f"/v1/traces/{name}")["traces"] == [story]
            [event] = any_door.all("/v1/traces", topic=topic, event="PRODUCED")
            assert (event["messageId"], event["clientId"]) == (topic, "kompat-http")
    door.get(f"/v1/topics/{topic}/partitions/1/messages/5/trace", status=404)
    door.get("/v1/traces/nobody", status=404)
