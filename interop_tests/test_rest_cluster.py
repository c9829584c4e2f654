"""REST on three brokers: whichever is asked answers for all of them, whoever leads, coordinates or controls."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from interop_tests.support.broker import external
from interop_tests.support.cluster import Cluster, cluster_of
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until

pytestmark = pytest.mark.skipif(external() is not None, reason="the broker under test is not ours to make a cluster of")

BROKERS = (1, 2, 3)
Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"default.replication.factor": "3", "group.initial.rebalance.delay.ms": "0"}
    with cluster_of(tmp_path_factory.mktemp("rest"), 3, settings, http=True) as started:
        yield started


class Door:
    """A broker's HTTP door."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=60)

    def __call__(self, method: str, path: str, body: Any = None, *, status: int = 200, **query: Any) -> Json:
        """The answer as JSON; a status that is not the one expected is a failure."""
        answer = self._client.request(method, path, json=body, params=query or None)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        found: Json = answer.json() if answer.content else {}
        return found

    def all(self, path: str, **query: Any) -> list[Any]:
        """All pages of a list."""
        page = self("GET", path, **query)
        items = page["items"]
        while page["nextCursor"] is not None:
            page = self("GET", path, cursor=page["nextCursor"], **query)
            items += page["items"]
        return list(items)

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def doors(cluster: Cluster) -> Iterator[dict[int, Door]]:
    found = {number: Door(broker.http_url) for number, broker in cluster.brokers.items()}
    yield found
    for door in found.values():
        door.close()


@pytest.fixture(params=BROKERS)
def door(request: pytest.FixtureRequest, doors: dict[int, Door]) -> Door:
    """Each broker in turn: of all that is asked for, each leads a part at most."""
    return doors[request.param]


def produce(cluster: Cluster, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, f"value {number}", partition=partition)
    assert producer.flush(30) == 0


def test_each_broker_is_ready_and_tells_of_all(door: Door, cluster: Cluster) -> None:
    door("GET", "/health/live")
    assert {check["name"] for check in door("GET", "/health/ready")["checks"]} >= {"broker", "registered", "controller"}
    told = door("GET", "/v1/cluster")
    assert [(b["id"], b["port"], b["state"]) for b in told["brokers"]] == [
        (number, broker.port, "up") for number, broker in cluster.brokers.items()
    ]
    assert [f"http://{b['http']}" for b in told["brokers"]] == [b.http_url for b in cluster.brokers.values()]
    assert sum(b["isController"] for b in told["brokers"]) == 1
    assert door("GET", f"/v1/cluster/brokers/{told['controller']}")["isController"]
    assert told["clusterId"] == door("GET", "/version")["clusterId"]


def test_the_life_of_a_topic(door: Door, doors: dict[int, Door], cluster: Cluster) -> None:
    name = fresh_name("life")
    made = door("POST", "/v1/topics", {"name": name, "partitions": 3, "configs": {"retention.ms": "-1"}}, status=201)
    assert [sorted(p["replicas"]) for p in made["partitions"]] == [[1, 2, 3]] * 3
    assert door("POST", "/v1/topics", {"name": name}, status=409)["code"] == "TOPIC_ALREADY_EXISTS"
    cluster.wait_led(name, 3)
    assert len({door("GET", f"/v1/topics/{name}")["partitions"][i]["leader"] for i in range(3)}) == 3
    for partition in range(3):
        produce(cluster, name, 10, partition)
    for other in doors.values():
        told = other("GET", f"/v1/topics/{name}")
        assert [(p["startOffset"], p["endOffset"]) for p in told["partitions"]] == [(0, 10)] * 3
        assert all(p["bytes"] > 0 for p in told["partitions"])
        [summary] = other("GET", "/v1/topics", search=name)["items"]
        assert (summary["records"], summary["partitions"], summary["underReplicated"]) == (30, 3, 0)

    changed = door(
        "PATCH", f"/v1/topics/{name}/configs", {"set": {"max.message.bytes": "2000"}, "delete": ["retention.ms"]}
    )
    values = {each["name"]: (each["value"], each["isDefault"]) for each in changed["items"]}
    assert values["max.message.bytes"] == ("2000", False)
    assert values["retention.ms"] == ("604800000", True)
    assert door("GET", f"/v1/topics/{name}")["configs"] == {"max.message.bytes": "2000"}

    cut = door("POST", f"/v1/topics/{name}/truncate", {"offsets": {"0": 4, "1": -1, "2": 0}})
    assert cut["lowWatermarks"] == {"0": 4, "1": 10, "2": 0}
    assert len(door("POST", f"/v1/topics/{name}/partitions", {"count": 5})["partitions"]) == 5
    assert len(door.all(f"/v1/topics/{name}/partitions", limit=2)) == 5
    door("DELETE", f"/v1/topics/{name}", status=204)
    assert door("GET", f"/v1/topics/{name}", status=404)["code"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_pages_have_all_topics_once(door: Door) -> None:
    hint = fresh_name("page")
    names = sorted(f"{hint}.{number}" for number in range(7))
    for name in names:
        door("POST", "/v1/topics", {"name": name, "replicationFactor": 1}, status=201)

    assert [topic["name"] for topic in door.all("/v1/topics", limit=3, search=hint)] == names
    assert "__consumer_offsets" not in {topic["name"] for topic in door.all("/v1/topics")}


def consumer_of(cluster: Cluster, group: str, protocol: str) -> Consumer:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer(settings | {"group.protocol": protocol, "enable.auto.commit": False, "client.id": "reader"})


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_described_and_left_alone(door: Door, cluster: Cluster, protocol: str) -> None:
    topic, group = cluster.create("grouped", 2), fresh_name("group/of")
    at = f"/v1/groups/{group.replace('/', '%2F')}"
    produce(cluster, topic, 10)
    consumer = consumer_of(cluster, group, protocol)
    consumer.subscribe([topic])
    read = [until(lambda: consumer.poll(1), "a record", seconds=30) for _ in range(4)]
    consumer.commit(read[-1], asynchronous=False)

    told = door("GET", at)
    [member] = told["members"]
    [summary] = door("GET", "/v1/groups", search=group, type=protocol)["items"]
    busy = door("POST", f"{at}/reset", {"to": "earliest"}, status=409)
    kept = door("DELETE", at, status=409)
    consumer.close()

    assert (told["type"], told["state"], told["lag"]) == (protocol, "Stable", 6)
    assert (member["clientId"], member["assignments"]) == ("reader", [{"topic": topic, "partitions": [0, 1]}])
    assert told["offsets"][0]["committed"] == 4
    assert (summary["members"], summary["lag"]) == (1, 6)
    assert busy["code"] == kept["code"] == "NON_EMPTY_GROUP"


def test_offsets_are_moved_forgotten_and_deleted(door: Door, cluster: Cluster) -> None:
    topic, group = cluster.create("moved", 2), fresh_name("mover")
    at = f"/v1/groups/{group}"
    produce(cluster, topic, 10)
    door("GET", at, status=404)
    offsets = [{"topic": topic, "partition": 0, "offset": 7, "metadata": "by hand"}]
    assert door("PUT", f"{at}/offsets", {"offsets": offsets})["offsets"][0]["to"] == 7

    def moved(to: Any, **more: Any) -> list[tuple[int, int | None, int]]:
        told = door("POST", f"{at}/reset", {"to": to, **more})["offsets"]
        return [(each["partition"], each["from"], each["to"]) for each in told]

    assert moved("earliest", dryRun=True) == [(0, 7, 0)]
    assert moved({"shiftBy": -3}) == [(0, 7, 4)]
    assert moved({"shiftBy": 1000}) == [(0, 4, 10)]
    assert moved({"time": "2001-01-01T00:00:00Z"}) == [(0, 10, 0)]
    assert moved({"time": "2101-01-01T00:00:00Z"}) == [(0, 0, 10)]
    assert moved("latest", topic=topic) == [(0, 10, 10), (1, None, 0)]
    assert moved({"offset": 3}, topic=topic, partitions=[0]) == [(0, 10, 3)]
    assert {o["partition"]: o["committed"] for o in door("GET", at)["offsets"]} == {0: 3, 1: 0}
    door("DELETE", f"{at}/offsets", {"topic": topic, "partitions": [1]}, status=204)
    assert [o["partition"] for o in door("GET", at)["offsets"]] == [0]
    door("DELETE", at, status=204)
    assert door("GET", at, status=404)["code"] == "GROUP_ID_NOT_FOUND"


def test_settings_of_groups_and_of_any_broker(door: Door) -> None:
    group = fresh_name("set")
    told = door("PATCH", f"/v1/groups/{group}/configs", {"set": {"share.record.lock.duration.ms": "45000"}})
    assert {e["name"]: e["value"] for e in told["items"]}["share.record.lock.duration.ms"] == "45000"
    for number in BROKERS:
        [node] = door("GET", "/v1/cluster/configs", broker=number, search="node.id")["items"]
        assert node["value"] == str(number)
    changed = door("PATCH", "/v1/cluster/configs", {"set": {"log.cleaner.backoff.ms": "14000"}, "broker": 2})
    assert {e["name"]: e["value"] for e in changed["items"]}["log.cleaner.backoff.ms"] == "14000"
    assert door("GET", "/v1/cluster/configs", broker=9, status=404)["code"] == "BROKER_ID_NOT_REGISTERED"


def test_raft_is_told_by_each_partitions_leader(door: Door, cluster: Cluster) -> None:
    topic = cluster.create("raft", 3)
    produce(cluster, topic, 5)
    cluster.wait_in_sync(topic)

    groups = door.all("/v1/cluster/raft", topic=topic, limit=2)
    [metadata] = door.all("/v1/cluster/raft", topic="__cluster_metadata")

    assert [group["leader"] for group in groups] == [leader for leader, _, _ in cluster.partitions(topic)]
    for group in [*groups, metadata]:
        assert sorted(peer["id"] for peer in group["peers"]) == [1, 2, 3]
        assert group["role"] == "leader"
        assert group["term"] >= 1
        assert 0 < group["commitIndex"] <= group["lastIndex"]
    assert metadata["leader"] == door("GET", "/v1/cluster")["controller"]


def test_replicas_move_and_leaders_come_back(door: Door, cluster: Cluster) -> None:
    topic = cluster.create("moves", 1, factor=1)
    [here] = cluster.partitions(topic)[0][1]
    there = here % 3 + 1
    wanted = [{"topic": topic, "partition": 0, "replicas": [there]}, {"topic": "none", "partition": 0, "replicas": [1]}]

    moved, unknown = door("POST", "/v1/cluster/reassignments", {"assignments": wanted})["results"]
    until(lambda: not door("GET", "/v1/cluster/reassignments")["items"], "it has moved", seconds=30)

    assert moved["ok"]
    assert unknown["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    until(lambda: door("GET", f"/v1/topics/{topic}")["partitions"][0]["leader"] == there, "it leads there", seconds=30)
    assert door("GET", f"/v1/topics/{topic}")["partitions"][0]["replicas"] == [there]
    [outcome] = door("POST", "/v1/cluster/elect-leaders", {"partitions": [{"topic": topic, "partition": 0}]})["results"]
    assert outcome["error"] == "ELECTION_NOT_NEEDED"


def test_an_open_transaction_is_found_and_aborted(door: Door, cluster: Cluster) -> None:
    topic, name = cluster.create("txn"), fresh_name("txn")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "never")
    assert producer.flush(30) == 0

    told = door("GET", f"/v1/transactions/{name}")
    listed = door.all("/v1/transactions", state="Ongoing", search=name)
    ended = door("POST", f"/v1/transactions/{name}/abort")

    assert (told["state"], told["topics"]) == ("Ongoing", [{"topic": topic, "partitions": [0]}])
    assert [each["transactionalId"] for each in listed] == [name]
    assert ended["state"] != "Ongoing"
    assert ended["producerEpoch"] > told["producerEpoch"] or ended["producerId"] != told["producerId"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)


def test_users_and_quotas_are_the_clusters(door: Door, doors: dict[int, Door]) -> None:
    name = fresh_name("user")
    made = door("POST", "/v1/users", {"name": name, "password": "pencil", "mechanisms": ["SCRAM-SHA-512"]}, status=201)
    assert made["credentials"] == [{"mechanism": "SCRAM-SHA-512", "iterations": 4096}]
    door("POST", "/v1/quotas", {"user": name, "set": {"producer_byte_rate": 1000}}, status=204)
    for other in doors.values():
        until(lambda other=other: name in {u["name"] for u in other.all("/v1/users", limit=1)}, "it is known")  # type: ignore[misc]
        until(
            lambda other=other: {"user": name, "values": {"producer_byte_rate": 1000.0}} in other.all("/v1/quotas"),  # type: ignore[misc]
            "its quota is known",
        )
    door("POST", "/v1/quotas", {"user": name, "delete": ["producer_byte_rate"]}, status=204)
    door("DELETE", f"/v1/users/{name}", status=204)
    assert door("GET", f"/v1/users/{name}", status=404)["code"] == "RESOURCE_NOT_FOUND"
    assert door("GET", "/v1/acls", status=409)["code"] == "SECURITY_DISABLED"


def test_statistics_of_all_brokers(door: Door, cluster: Cluster) -> None:
    topic = cluster.create("counted", 3)
    before = door("GET", "/v1/statistics", scope="cluster")
    for partition in range(3):
        produce(cluster, topic, 100, partition)

    def counted() -> Json | None:
        after = door("GET", "/v1/statistics", scope="cluster", since=before["at"])
        has_samples = sum(sample["messagesIn"] for sample in after["samples"]) >= 300
        return after if has_samples and after["messagesIn"] - before["messagesIn"] >= 300 else None

    after = until(counted, "what was sent is counted", seconds=20)
    assert after["brokers"] == [1, 2, 3]
    assert all(sample["at"] > before["at"] for sample in after["samples"])
    assert after["latency"]["produceP50"] is not None


def test_a_broker_is_drained_and_takes_part_again(doors: dict[int, Door], cluster: Cluster) -> None:
    topic = cluster.create("drained", 3, factor=1)
    assert doors[1]("POST", "/v1/cluster/brokers/3/drain")["draining"]
    until(
        lambda: 3 not in {r for _, replicas, _ in cluster.partitions(topic) for r in replicas},
        "it has moved",
        seconds=60,
    )
    assert doors[2]("GET", "/v1/cluster/brokers/3")["state"] == "draining"
    assert not doors[3]("DELETE", "/v1/cluster/brokers/3/drain")["draining"]
    assert doors[1]("GET", "/v1/cluster/brokers/3")["state"] == "up"
    assert doors[1]("DELETE", "/v1/cluster/brokers/9", status=404)["code"] == "BROKER_ID_NOT_REGISTERED"


def test_when_a_broker_is_killed_the_others_go_on_answering(doors: dict[int, Door], cluster: Cluster) -> None:
    topic = cluster.create("survives", 3)
    cluster.wait_in_sync(topic)
    cluster.brokers[3].kill()

    def leaders() -> set[int | None]:
        return {partition["leader"] for partition in doors[1]("GET", f"/v1/topics/{topic}")["partitions"]}

    until(lambda: leaders() <= {1, 2}, "others lead", seconds=60)
    until(lambda: doors[2]("GET", "/v1/cluster/brokers/3")["state"] == "down", "it is missed", seconds=60)
    for number in (1, 2):
        doors[number]("GET", "/health/ready")
        sent = [{"value": "still here", "partition": partition} for partition in range(3)]
        results = doors[number]("POST", f"/v1/topics/{topic}/messages", {"messages": sent})["results"]
        assert [("error" in result, result["partition"]) for result in results] == [(False, p) for p in range(3)]
        assert doors[number]("GET", "/v1/statistics", scope="cluster")["brokers"] == [1, 2]
        doors[number].all("/v1/groups")
    [summary] = doors[1]("GET", "/v1/topics", search=topic)["items"]
    assert (summary["records"], summary["underReplicated"]) == (6, 3)
    cluster.start(3)
    assert doors[3]("GET", f"/v1/topics/{topic}")["name"] == topic
