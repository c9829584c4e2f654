"""The routes of FalconQ, Queue and GoQueue, as their READMEs call them: with curl, through a broker that leads nothing."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from interop_tests.support.broker import external
from interop_tests.support.cluster import Cluster, cluster_of
from interop_tests.support.groups import fresh_group
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until

SECONDS = 60.0
Json = dict[str, Any]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if external() is not None:
        pytest.skip("the door is kompat's own")
    settings = {
        "group.share.assignment.interval.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
    }
    with cluster_of(tmp_path_factory.mktemp("seeds"), 3, settings, http=True) as cluster:
        yield cluster


class Curl:
    """The command, as it stands in a README; `http://localhost:8080` is whichever broker is asked."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, command: str, *, status: int = 200) -> Any:
        words = shlex.split(command.replace("http://localhost:8080", self._url).replace("\\\n", " "))
        assert words[0] == "curl"
        words[1:1] = ["--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        body, _, code = done.stdout.rpartition("\n")
        assert int(code) == status, body
        return json.loads(body) if body else None

    def post(self, path: str, body: Json, *, status: int = 200) -> Any:
        told = shlex.quote(json.dumps(body))
        return self(
            f'curl -X POST http://localhost:8080{path} -H "Content-Type: application/json" -d {told}', status=status
        )

    def get(self, path: str, *, status: int = 200) -> Any:
        return self(f'curl "http://localhost:8080{path}"', status=status)


@pytest.fixture
def curl(three: Cluster) -> Curl:
    """Of the broker that leads nothing of what tests create on the others."""
    return Curl(three.brokers[3].http_url)


@pytest.fixture
def others(three: Cluster) -> list[Curl]:
    return [Curl(three.brokers[number].http_url) for number in (1, 2)]


def made(three: Cluster, curl: Curl, *leaders: int) -> str:
    name = fresh_name("seed")
    configs = {"kompat.priority.aging.ms": "0"}
    curl.post("/v1/topics", {"name": name, "assignments": [[each] for each in leaders], "configs": configs}, status=201)
    three.wait_led(name, len(leaders))
    return name


# -- FalconQ -----------------------------------------------------------------------------------------------------------
README = """
curl -X POST http://localhost:8080/topic/orders/publish \\
  -H "Content-Type: application/json" \\
  -d '{"message": "🧊 Normal order", "priority": "low"}'

curl -X POST http://localhost:8080/topic/orders/publish \\
  -H "Content-Type: application/json" \\
  -d '{"message": "🔥 Urgent refund", "priority": "high"}'

curl "http://localhost:8080/topic/orders/consume?consumerID=worker1&batch=1"

curl "http://localhost:8080/topic/orders/peek?offset=0&batch=5"

curl http://localhost:8080/topics

curl http://localhost:8080/topics/orders/partitions
"""


def test_falconq_does_what_its_readme_shows(curl: Curl) -> None:
    low, high, consumed, peeked, topics, partitions = (
        curl(command) for command in README.strip().replace("orders", "falcon-orders").split("\n\n")
    )

    assert (low["status"], low["topic"], low["partitionID"], low["offset"]) == (
        *("message received", "falcon-orders"),
        *(0, 0),
    )
    assert (high["offset"], high["priority"]) == (1, "high")
    assert consumed["messages"] == [{"v": "🔥 Urgent refund", "p": "high", "offset": 1, "partitionID": 0}]
    assert (consumed["consumerID"], consumed["count"], consumed["nextOffset"]) == ("worker1", 1, 2)
    assert [each["v"] for each in peeked["messages"]] == ["🔥 Urgent refund", "🧊 Normal order"]
    assert (peeked["startOffset"], peeked["count"], peeked["nextOffset"]) == (0, 2, 2)
    assert "falcon-orders" in topics["topics"]
    assert partitions == {"topic": "falcon-orders", "partitions": [{"id": 0, "totalCount": 2}]}


def test_falconq_gives_each_consumer_everything_once_high_first_from_any_broker(
    three: Cluster, curl: Curl, others: list[Curl]
) -> None:
    topic = made(three, curl, 1, 2, 1)
    for number in range(12):
        level = "high" if number % 3 == 0 else "low"
        body = {"message": f"m{number}", "priority": level, "partitionKey": f"key-{number}"}
        assert curl.post(f"/topic/{topic}/publish", body)["priority"] == level

    def taken(by: Curl, consumer: str, batch: int, where: str = "") -> list[Json]:
        found: list[Json] = by.get(f"/topic/{topic}/consume?consumerID={consumer}&batch={batch}{where}")["messages"]
        return found

    first = taken(curl, "ann", 4)
    assert [each["p"] for each in first] == ["high"] * 4
    second = taken(others[0], "ann", 3)
    third = taken(others[1], "ann", 20)
    assert {each["p"] for each in second + third} == {"low"}
    assert sorted(each["v"] for each in first + second + third) == sorted(f"m{number}" for number in range(12))
    assert taken(curl, "ann", 5) == []
    assert len(taken(curl, "bob", 20)) == 12
    one_by_one = [each for number in range(3) for each in taken(curl, "cleo", 20, f"&partitionID={number}")]
    assert len(one_by_one) == 12
    curl.get(f"/topic/{topic}/consume?consumerID=ann&partitionID=9", status=404)
    curl.get(f"/topic/{topic}/consume?batch=1", status=400)
    curl.post(f"/topic/{topic}/publish", {"message": "m", "priority": "medium"}, status=400)
    figures = curl.get(f"/raft/stats?topic={topic}&partitionID=1")
    assert (figures["leader"], figures["partitionID"]) == (2, 1)
    assert figures["commit_index"] >= figures["applied_index"] >= 0


# -- Queue -------------------------------------------------------------------------------------------------------------
def queue_topic(curl: Curl, partitions: int) -> str:
    name = fresh_name("queue")
    body = {"name": name, "numberOfPartitions": partitions, "replicationFactor": 1}
    assert curl.post("/topics", body, status=201) == {"Name": name, "NumberOfPartitions": partitions}
    return name


def sent(curl: Curl, topic: str, text: str, key: str = "") -> Json:
    data = base64.b64encode(text.encode()).decode()
    message: Json = curl.post("/sendMessage", {"topic": topic, "partitionKey": key, "data": data})
    assert (message["Topic"], message["Data"]) == (topic, data)
    return message


def received(curl: Curl, consumer: str, partition: str = "") -> Json | None:
    body = {"consumerID": consumer, **({"partitionID": partition} if partition else {})}
    message: Json | None = curl(
        "curl -X GET http://localhost:8080/receiveMessage -H 'Content-Type: application/json' "
        f"-d {shlex.quote(json.dumps(body))}"
    )
    return message


def text_of(message: Json | None) -> str | None:
    return None if message is None else base64.b64decode(message["Data"]).decode()


def acknowledge(curl: Curl, consumer: str, message: Json, *, status: int = 200) -> None:
    body = {"consumerID": consumer, "partitionID": message["PartitionID"], "ID": message["ID"]}
    curl.post("/ackMessage", body, status=status)


def test_queue_gives_a_message_until_it_is_acknowledged_at_any_broker(curl: Curl, others: list[Curl]) -> None:
    topic, group = queue_topic(curl, 1), fresh_group()
    for number in range(3):
        sent(curl, topic, f"m{number}", "same")
    body = {"consumerID": f"{group}-ann", "consumerGroup": group, "topics": [topic]}
    connected = curl.post("/connect", body)
    assert connected["consumer"]["partitions"] == [f"{topic}-0"]
    assert connected["consumerGroup"] == {"id": group, "consumers": [f"{group}-ann"], "topics": [topic]}

    ann = f"{group}-ann"
    first = received(curl, ann)
    assert text_of(first) == text_of(received(others[0], ann)) == text_of(received(curl, ann, f"{topic}-0")) == "m0"
    assert first is not None
    ahead = {**first, "ID": base64.b64encode((2).to_bytes(8, "big")).decode()}
    acknowledge(curl, ann, ahead, status=409)
    acknowledge(others[1], ann, first)
    acknowledge(curl, ann, first)  # once more is no error
    for expected in ("m1", "m2"):
        message = received(curl, ann)
        assert text_of(message) == expected
        assert message is not None
        acknowledge(others[0], ann, message)
    assert received(curl, ann) is None
    curl.post("/ackMessage", {"consumerID": "nobody", "partitionID": f"{topic}-0", "ID": first["ID"]}, status=404)
    curl.post("/ackMessage", {"consumerID": ann, "partitionID": "other-0", "ID": first["ID"]}, status=409)
    curl.post("/connect", {"consumerID": ann, "consumerGroup": group, "topics": ["no-such-topic"]}, status=404)


def test_queue_shares_partitions_among_a_groups_consumers_and_moves_no_more_than_it_must(curl: Curl) -> None:
    topic, group = queue_topic(curl, 4), fresh_group()
    ann, bob = f"{group}-ann", f"{group}-bob"
    all_of = {f"{topic}-{number}" for number in range(4)}

    def connect(consumer: str) -> set[str]:
        body = {"consumerID": consumer, "consumerGroup": group, "topics": [topic]}
        return set(curl.post("/connect", body)["consumer"]["partitions"])

    def alive(consumer: str) -> set[str]:
        body = {"consumerID": consumer, "pingAt": "2030-01-01T00:00:00Z"}
        return set(curl.post("/healthCheck", body)["partitions"])

    assert connect(ann) == all_of
    connect(bob)
    until(lambda: len(alive(ann)) == len(alive(bob)) == 2, "they share", seconds=SECONDS)
    anns, bobs = alive(ann), alive(bob)
    assert anns | bobs == all_of
    assert alive(ann) == anns

    mine = next(iter(sorted(bobs)))
    curl.get(f"/receiveMessage?consumerID={ann}&partitionID={mine}", status=409)
    shards = curl.get(f"/shards-info?topics={topic}")
    assert set(shards["shardInfo"]) == all_of
    assert {each["ID"] for each in shards["brokers"]} == {1, 2, 3}
    assert shards["leader"]["ID"] in (1, 2, 3)


# -- GoQueue -----------------------------------------------------------------------------------------------------------
def test_goqueue_polls_with_receipts_and_takes_a_word_for_each(three: Cluster, curl: Curl, others: list[Curl]) -> None:
    topic, group = made(three, curl, 1, 2), fresh_group()
    messages = [
        {"value": "now", "partition": 0, "priority": "critical"},
        {"value": "later", "partition": 0},
        {"value": "never", "partition": 1},
        {"value": "soon", "partition": 1, "delay": "1h"},
    ]
    sent_ = curl.post(f"/v1/topics/{topic}/messages", {"messages": messages})
    assert [each["partition"] for each in sent_["results"]] == [0, 0, 1, 1]
    member = curl.post(f"/v1/groups/{group}/join", {"client_id": "ann", "topics": [topic]})
    assert member["members"] == [member["member_id"]]
    me = {"member_id": member["member_id"], "generation": member["generation"]}
    assert others[0].post(f"/v1/groups/{group}/heartbeat", me)["status"] == "ok"

    def polled(by: Curl, limit: int) -> dict[str, Json]:
        found = by.get(f"/v1/groups/{group}/poll?member_id={member['member_id']}&limit={limit}&timeout=5s")
        return {each["value"]: each for part in found["messages"].values() for each in part}

    taken: dict[str, Json] = {}
    while len(taken) < 3:
        taken |= polled(curl, 10)
    assert taken["now"]["priority"] == "critical"
    held = {name: each["receipt_handle"] for name, each in taken.items()}
    extended = curl.post("/v1/messages/visibility", {"receipt_handle": held["now"], "extension_seconds": 60})
    assert (extended["success"], extended["topic"], extended["partition"]) == (True, topic, 0)
    assert others[1].post("/v1/messages/ack", {"receipt_handle": held["now"]})["success"]
    assert curl.post("/v1/messages/nack", {"receipts": [held["later"]], "delay": 0})["results"][0]["ok"]
    assert curl.post("/v1/messages/reject", {"receipt_handle": held["never"], "reason": "no good"})["success"]
    curl.post("/v1/messages/ack", {"receipt_handle": "rubbish"}, status=400)
    again = polled(others[0], 10)
    assert (set(again), again["later"]["delivery_count"]) == ({"later"}, 2)

    assert curl.get("/v1/delay/stats")["by_topic"][topic] == 1
    reliability = curl.get("/v1/reliability/stats")
    assert reliability["visibility_tracker"]["current_in_flight"] >= 1
    until(
        lambda: curl.get("/v1/reliability/stats")["dlq"]["routes_by_topic"].get(f"dlq.{topic}") == 1,
        "its dead letter is counted",
        seconds=SECONDS,
    )
    offsets = {topic: {"0": 1}}
    other = fresh_group()
    assert curl.post(f"/v1/groups/{other}/offsets", {"offsets": offsets})["status"] == "committed"
    assert curl.get(f"/v1/groups/{other}/offsets")["topics"] == offsets
    assert curl.post(f"/v1/groups/{group}/leave", {"member_id": member["member_id"]})["status"] == "left"
    curl.get(f"/v1/groups/{group}/poll?member_id={member['member_id']}&timeout=0", status=404)


def test_goqueue_counts_what_waits_in_lanes(three: Cluster, curl: Curl) -> None:
    name = fresh_name("lanes")
    configs = {"kompat.delivery.order": "priority"}
    curl.post("/v1/topics", {"name": name, "assignments": [[1]], "configs": configs}, status=201)
    three.wait_led(name, 1)
    messages = [{"value": "v", "priority": level} for level in ("critical", "low", "low")]
    curl.post(f"/v1/topics/{name}/messages", {"messages": messages})

    told = curl.get("/v1/priority/stats")
    assert told["topics"][name] == {
        "total_by_priority": [1, 0, 0, 2, 0],
        "partitions": {"0": {"pending": [1, 0, 0, 2, 0]}},
    }
