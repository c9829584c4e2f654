"""Queues and dead letters by HTTP, through a broker of three that has nothing of the topic itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer

from interop_tests.support.broker import external
from interop_tests.support.cluster import Cluster, cluster_of
from interop_tests.support.groups import fresh_group
from interop_tests.support.rest import SECONDS, Door, Json, values
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if external() is not None:
        pytest.skip("the door is kompat's own")
    with cluster_of(tmp_path_factory.mktemp("queues"), 3, http=True) as cluster:
        yield cluster


@pytest.fixture
def doors(three: Cluster) -> Iterator[dict[int, Door]]:
    with contextlib.ExitStack() as stack:
        yield {
            number: stack.enter_context(contextlib.closing(Door(broker.http_url)))
            for number, broker in three.brokers.items()
        }


@pytest.fixture
def door(doors: dict[int, Door]) -> Door:
    """Of the broker that leads nothing."""
    return doors[3]


@pytest.fixture
def topic(three: Cluster, door: Door) -> str:
    name = fresh_name("jobs")
    door.post("/v1/topics", {"name": name, "assignments": [[1], [2]]}, status=201)
    three.wait_led(name, 2)
    return name


class Queue:
    """A group's part of a topic, asked at one broker."""

    def __init__(self, door: Door, topic: str, group: str) -> None:
        self.door = door
        self._path = f"/v1/queues/{topic}/groups/{group}"

    def acquire(self, **body: object) -> list[Json]:
        return list(self.door.post(f"{self._path}/acquire", body)["deliveries"])

    def acquire_all(self, count: int) -> dict[str, Json]:
        found: dict[str, Json] = {}
        until(
            lambda: found.update({each["value"]: each for each in self.acquire(max=10)}) or len(found) >= count,
            f"{count} deliveries",
            seconds=SECONDS,
        )
        return found

    def say(self, word: str, *deliveries: Json, **more: object) -> list[Json]:
        receipts = [each["receipt"] for each in deliveries]
        return list(self.door.post(f"{self._path}/{word}", {"receipts": receipts, **more})["results"])

    def done(self, word: str, *deliveries: Json, **more: object) -> None:
        assert [result["ok"] for result in self.say(word, *deliveries, **more)] == [True] * len(deliveries)

    @property
    def figures(self) -> Json:
        return self.door.get(self._path)


def test_records_are_held_acknowledged_released_and_kept_by_receipt_at_any_broker(
    doors: dict[int, Door], topic: str
) -> None:
    group = fresh_group()
    mine, others = Queue(doors[3], topic, group), [Queue(doors[number], topic, group) for number in (1, 2)]
    mine.door.send(topic, *({"value": f"v{number}", "partition": number % 2} for number in range(4)))

    held = mine.acquire_all(4)
    assert mine.acquire(max=10) == others[0].acquire(max=10) == []
    assert {(each["deliveryCount"], each["priority"], each["topic"]) for each in held.values()} == {(1, 4, topic)}
    assert all(each["lockedUntil"] > each["timestamp"] for each in held.values())
    figures = others[1].figures
    assert (figures["inFlight"], figures["available"], figures["deliveries"]) == (4, 0, {"1": 4})

    others[0].done("ack", held["v0"], held["v1"])
    mine.done("extend", held["v2"], lockMs=600_000)
    others[1].done("nack", held["v3"], delay=0)
    again = mine.acquire_all(1)
    assert (set(again), again["v3"]["deliveryCount"]) == ({"v3"}, 2)
    [stale] = others[0].say("nack", held["v3"])  # another holds it now
    assert (stale["ok"], stale["error"]["status"]) == (False, 409)
    mine.done("nack", again["v3"], delay="1h")
    assert mine.figures["backingOff"] == 1
    mine.done("ack", held["v2"])
    [late, wrong] = mine.say("ack", held["v2"]) + mine.say("ack", {"receipt": "rubbish"})
    assert late["ok"]
    assert "not a receipt" in wrong["error"]["detail"]
    [foreign] = Queue(doors[3], topic, "another").say("ack", held["v0"])
    assert group in foreign["error"]["detail"]


def test_an_acquisition_waits_for_what_comes_to_any_partition_and_gives_the_most_urgent(door: Door, topic: str) -> None:
    queue = Queue(door, topic, fresh_group())
    found: list[Json] = []
    waiting = threading.Thread(target=lambda: found.extend(queue.acquire(waitMs=60_000)))
    with contextlib.closing(Door(door.url)) as sending:
        waiting.start()
        sending.send(topic, {"value": "late", "partition": 1})
        waiting.join(SECONDS)
    assert values(found) == ["late"]
    queue.done("ack", *found)

    door.send(topic, *({"value": level, "partition": 0, "priority": level} for level in ("low", "normal", "critical")))
    assert queue.figures["depthByClass"] == {"2": 1, "4": 1, "9": 1}
    [first] = queue.acquire(partition=0)
    assert (first["value"], first["priority"]) == ("critical", 9)
    assert Queue(door, topic, fresh_group()).acquire(startAt="latest") == []
    [mine] = [each for each in door.all("/v1/queues", search=topic) if each["inFlight"] == 1]
    assert mine["topic"] == topic
    for body in ({"max": 0}, {"waitMs": 99_999_999}, {"lockMs": 0}, {"colour": "red"}):
        door.post(f"/v1/queues/{topic}/groups/g/acquire", body, status=400)
    door.post("/v1/queues/no-such-topic/groups/g/acquire", {}, status=404)
    door.post(f"/v1/queues/{topic}/groups/g/acquire", {"partition": 7}, status=404)


def test_a_group_that_is_forgotten_begins_anew(doors: dict[int, Door], topic: str) -> None:
    group = fresh_group()
    queue = Queue(doors[3], topic, group)
    path = f"/v1/queues/{topic}/groups/{group}"
    doors[3]("DELETE", path, status=404)
    queue.door.send(topic, *({"value": f"v{number}", "partition": number % 2} for number in range(4)))
    taken = queue.acquire_all(4)
    queue.done("ack", taken["v0"], taken["v1"])

    doors[1]("DELETE", path, status=204)
    assert group not in {each["group"] for each in doors[2].all("/v1/queues")}
    assert not any(result["ok"] for result in queue.say("ack", taken["v2"]))
    assert set(queue.acquire_all(4)) == {"v0", "v1", "v2", "v3"}
    doors[2]("DELETE", path, status=204)
    doors[2]("DELETE", path, status=404)


def test_a_group_that_is_used_by_receipts_is_listed_reset_and_deleted_like_others(
    doors: dict[int, Door], topic: str
) -> None:
    group = fresh_group()
    queue = Queue(doors[3], topic, group)
    queue.door.send(topic, *({"value": f"v{number}", "partition": number % 2} for number in range(4)))
    taken = queue.acquire_all(4)
    queue.done("ack", *taken.values())

    for door in doors.values():
        [listed] = door.all("/v1/groups", search=group)
        assert (listed["type"], listed["state"], listed["lag"]) == ("share", "Empty", 0)
    assert [each["committed"] for each in doors[1].get(f"/v1/groups/{group}")["offsets"]] == [2, 2]
    doors[2].post(f"/v1/groups/{group}/reset", {"to": "earliest"})
    assert not any(result["ok"] for result in queue.say("nack", *taken.values()))  # the group has begun anew
    assert set(queue.acquire_all(4)) == set(taken)
    doors[1]("DELETE", f"/v1/groups/{group}", status=204)
    assert doors[3].all("/v1/groups", search=group) == []
    assert group not in {each["group"] for each in doors[2].all("/v1/queues")}


def test_an_accept_and_a_reject_of_one_delivery_at_the_same_time_do_not_both_count(
    doors: dict[int, Door], topic: str
) -> None:
    group = fresh_group()
    first, second = (Queue(doors[number], topic, group) for number in (1, 2))
    first.door.send(topic, *({"value": f"v{number}", "partition": 0} for number in range(40)))
    both, rejected = 0, 0
    for delivery in first.acquire_all(40).values():
        with ThreadPoolExecutor(2) as pool:
            accepting = pool.submit(first.say, "ack", delivery)
            rejecting = pool.submit(second.say, "reject", delivery)
            answers = accepting.result()[0]["ok"], rejecting.result()[0]["ok"]
        assert any(answers)
        both += all(answers)
        rejected += answers[1]
    assert both == 0
    until(lambda: _letters(doors[3], f"dlq.{topic}", group) == rejected, f"{rejected} dead letters", seconds=SECONDS)


def _letters(door: Door, name: str, group: str) -> int:
    if name not in {each["name"] for each in door.all("/v1/topics")}:
        return 0
    return len([each for each in door.all(f"/v1/dead-letters/{name}/messages") if each["origin"]["group"] == group])


def test_dead_letters_are_browsed_put_back_once_and_thrown_away(
    three: Cluster, doors: dict[int, Door], topic: str
) -> None:
    group, letters = fresh_group(), f"dlq.{topic}"
    queue = Queue(doors[3], topic, group)
    queue.door.send(topic, *({"key": "k", "value": f"bad{number}", "partition": number % 2} for number in range(4)))
    queue.done("reject", *queue.acquire_all(4).values(), reason="nobody cooks that")
    path = f"/v1/dead-letters/{letters}"
    until(lambda: len(doors[3].all(f"{path}/messages")) == 4, "the letters are written", seconds=SECONDS)

    for door in doors.values():
        items = door.all(f"{path}/messages", limit=3)
        assert sorted(values(items)) == [f"bad{number}" for number in range(4)]
        assert {(item["origin"]["topic"], item["origin"]["group"], item["isRedriven"]) for item in items} == {
            (topic, group, False)
        }
        assert {"topic": letters, "records": 4, "redriven": 0} in door.all("/v1/dead-letters")
        assert door.all(f"{path}/messages", cause="no such cause") == []
        assert len(door.all(f"{path}/messages", cause="nobody cooks that")) == 4
    one = next(item for item in doors[3].all(f"{path}/messages") if item["value"] == "bad1")
    back = doors[3].post(f"{path}/redrive", {"offsets": {one["partition"]: [one["offset"]]}})
    assert back == {"redriven": 1, "repeated": 0, "refused": []}
    assert doors[1].post(f"{path}/redrive", {"all": True})["redriven"] == 3
    assert doors[2].post(f"{path}/redrive", {"all": True})["redriven"] == 0
    again = queue.acquire_all(4)
    assert {each["headers"][0]["name"] for each in again.values()} == {"kompat-redrive-count"}

    consumer = Consumer(
        {
            "bootstrap.servers": three.bootstrap,
            "group.id": fresh_group(),
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    read: list[bytes] = []
    until(
        lambda: read.extend(m.value() for m in consumer.consume(10, 1.0) if m.error() is None) or len(read) == 8,
        "plain consumers have them twice",
        seconds=SECONDS,
    )
    consumer.close()
    for body in ({}, {"all": True, "group": group}, {"everything": True}):
        doors[3].post(f"{path}/redrive", body, status=400)
    assert doors[3].post(f"{path}/purge", {"onlyRedriven": True})["purged"] == 4
    assert doors[1].all(f"{path}/messages") == []
    doors[3].post(f"{path}/purge", {}, status=400)
    doors[3].get("/v1/dead-letters/no-such-topic/messages", status=404)
