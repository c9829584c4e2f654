"""The HTTP door of one broker: whatever is sent to it is answered, and hurts neither the broker nor its Kafka clients."""

import json
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from confluent_kafka import Producer

from interop_tests.support.broker import Broker, external, free_port, running
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until
from kompat.protocol.api_keys import ApiKey
from kompat.protocol.codec import decode_response, encode_request
from kompat.protocol.messages import classes

pytestmark = pytest.mark.skipif(external() is not None, reason="the broker under test may have no HTTP door")

MIB = 1024 * 1024
MOST_CONNECTIONS = 40


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {"kompat.http.max.connections": str(MOST_CONNECTIONS), "kompat.http.max.body.bytes": str(MIB)}
    with running(tmp_path_factory.mktemp("door"), settings, http=True) as started:
        yield started


@pytest.fixture
def rest(broker: Broker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, timeout=30) as client:
        yield client


def is_well(broker: Broker) -> bool:
    """Both doors answer."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("alive", b"value")
    return producer.flush(30) == 0 and httpx.get(f"{broker.http_url}/health/ready", timeout=30).status_code == 200


# -- requests that make no sense -----------------------------------------------------------------------------------------
JSON = {"content-type": "application/json"}
BAD: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/nothing", {}, 404),
    ("GET", "/v1/topics/", {}, 404),
    ("PUT", "/v1/topics", {"json": {}}, 405),
    ("POST", "/v1/topics", {}, 415),
    ("POST", "/v1/topics", {"content": b'{"name": "x"}'}, 415),
    ("POST", "/v1/topics", {"content": b'{"name": "x"}', "headers": {"content-type": "text/plain"}}, 415),
    ("POST", "/v1/topics", {"content": b"", "headers": JSON}, 400),
    ("POST", "/v1/topics", {"content": b"{", "headers": JSON}, 400),
    ("POST", "/v1/topics", {"content": b"\xff\xfe{}", "headers": JSON}, 400),
    ("POST", "/v1/topics", {"content": b"[" * 100_000, "headers": JSON}, 400),
    ("POST", "/v1/topics", {"json": []}, 400),
    ("POST", "/v1/topics", {"json": {}}, 400),
    ("POST", "/v1/topics", {"json": {"name": 5}}, 400),
    ("POST", "/v1/topics", {"json": {"name": "x", "partitions": 0}}, 400),
    ("POST", "/v1/topics", {"json": {"name": "x", "partitions": 2**40}}, 400),
    ("POST", "/v1/topics", {"json": {"name": "x", "nonsense": 1}}, 400),
    ("POST", "/v1/topics", {"json": {"name": "../etc"}}, 400),
    ("POST", "/v1/topics", {"json": {"name": "x", "replicationFactor": 3}}, 400),
    ("GET", "/v1/topics?limit=0", {}, 400),
    ("GET", "/v1/topics?limit=many", {}, 400),
    ("GET", "/v1/topics?limit=1&limit=2", {}, 400),
    ("GET", "/v1/topics?nonsense=1", {}, 400),
    ("GET", "/v1/topics?cursor=%21", {}, 400),
    ("GET", "/v1/topics?search=%FF", {}, 400),
    ("GET", "/v1/topics/%FF", {}, 400),
    ("GET", "/v1/cluster/brokers/many", {}, 400),
    ("GET", "/v1/cluster/brokers/-1", {}, 400),
    ("GET", "/v1/cluster/brokers/99999999999999999999999", {}, 400),
    ("DELETE", "/v1/cluster/brokers/1", {}, 400),
    ("GET", "/v1/topics/none", {}, 404),
    ("GET", "/v1/groups/none", {}, 404),
    ("POST", "/v1/groups/none/reset", {"json": {"to": {}}}, 400),
    ("POST", "/v1/topics", {"json": {"name": "x"}, "headers": {"origin": "https://elsewhere.example"}}, 403),
    ("POST", "/v1/topics", {"json": {"name": "x"}, "headers": {"sec-fetch-site": "cross-site"}}, 403),
]


@pytest.mark.parametrize(("method", "path", "sent", "status"), BAD)
def test_what_makes_no_sense_is_a_problem(
    rest: httpx.Client, method: str, path: str, sent: dict[str, Any], status: int
) -> None:
    answer = rest.request(method, path, **sent)

    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"].startswith("urn:kompat:problem:")
    assert len(problem["detail"]) > 10
    assert rest.get("/v1/topics?search=x").json()["items"] == []


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00" * 100,
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 40_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
    ids=["zeros", "no address", "a long head", "TLS"],
)
def test_what_is_not_http_is_refused(broker: Broker, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", broker.http_port or 0), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        got = b"".join(iter(lambda: connection.recv(65536), b""))

    assert got.startswith(b"HTTP/1.1 400 ")
    assert b"urn:kompat:problem:not-http" in got


# -- too much ------------------------------------------------------------------------------------------------------------
def test_a_body_that_is_too_long_is_refused_whether_it_says_so_or_not(rest: httpx.Client, broker: Broker) -> None:
    before = psutil.Process(broker.pid).memory_info().rss

    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b" " * MIB

    for content in (b" " * (32 * MIB), endless()):
        answer = rest.post("/v1/topics", content=content, headers=JSON)
        assert (answer.status_code, answer.json()["type"]) == (413, "urn:kompat:problem:body-too-large")

    assert psutil.Process(broker.pid).memory_info().rss - before < 24 * MIB
    assert is_well(broker)


def test_who_asks_first_sends_no_body_that_is_too_long(broker: Broker) -> None:
    head = f"POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {1 << 40}\r\n"
    with socket.create_connection(("127.0.0.1", broker.http_port or 0), timeout=10) as connection:
        connection.sendall(head.encode() + b"expect: 100-continue\r\n\r\n")

        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_bodies_that_never_come_hold_up_nobody(broker: Broker) -> None:
    head = b"POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS - 5):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", broker.http_port or 0), timeout=10))
            connection.sendall(head)

        assert is_well(broker)


def test_connections_are_bounded_and_given_back(broker: Broker) -> None:
    def answers() -> bool:
        try:
            return httpx.get(f"{broker.http_url}/health/live", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", broker.http_port or 0), timeout=10))
            for _ in range(MOST_CONNECTIONS * 3)
        ]
        until(
            lambda: sum(map(is_closed, idle)) == MOST_CONNECTIONS * 2, "those that are too many are closed", seconds=20
        )
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("alive", b"value")
        assert producer.flush(30) == 0
    until(answers, "there is room again", seconds=20)


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


# -- start and stop ------------------------------------------------------------------------------------------------------
def test_a_taken_port_stops_the_start_with_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = Broker(tmp_path)
        broker.http_port = taken.getsockname()[1]
        process = broker.spawn()
        try:
            assert process.wait(30) == 2
        finally:
            broker.close()

    [line] = broker.stderr().splitlines()
    assert line.startswith("kompat: ")
    assert str(broker.http_port) in line
    assert "HTTP" in line


def test_before_the_cluster_is_there_a_broker_is_live_but_not_ready(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"kompat.cluster.secret": "known to the brokers alone"})
    broker.http_port = free_port()
    broker.options = ("--node-id", "1", "--cluster", f"1@127.0.0.1:{free_port()},2@127.0.0.1:{free_port()}")
    broker.spawn()
    try:

        def live() -> httpx.Response | None:
            try:
                return httpx.get(f"{broker.http_url}/health/live", timeout=10)
            except httpx.TransportError:
                return None

        assert until(live, "it is live", seconds=30).status_code == 200
        ready = httpx.get(f"{broker.http_url}/health/ready", timeout=10)
        other = httpx.get(f"{broker.http_url}/v1/topics", timeout=10)
        assert (ready.status_code, other.status_code) == (503, 503)
        assert "waits" in ready.json()["detail"]
        assert other.headers["retry-after"] == "1"
        assert broker.stop() == 0
    finally:
        broker.close()


def test_sigterm_ends_what_follows_a_topic(tmp_path: Path) -> None:
    with running(tmp_path, http=True) as broker:
        topic = fresh_name("tail")
        httpx.post(f"{broker.http_url}/v1/topics", json={"name": topic}).raise_for_status()
        with httpx.stream("GET", f"{broker.http_url}/v1/topics/{topic}/tail?from=earliest", timeout=30) as stream:
            assert stream.status_code == 200
            lines = stream.iter_lines()
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            producer.produce(topic, b"seen")
            assert producer.flush(30) == 0
            data = next(line for line in lines if line.startswith("data:"))
            begun = time.monotonic()
            assert broker.stop() == 0
            took = time.monotonic() - begun

    assert json.loads(data.removeprefix("data:"))["value"] == "seen"
    assert took < 5


# -- share groups --------------------------------------------------------------------------------------------------------
def share_heartbeat(broker: Broker, group: str, member: str, epoch: int, topic: str) -> Any:
    """What a share consumer sends: it joins with epoch 0, and leaves with -1."""
    request, response = classes(ApiKey.ShareGroupHeartbeat)
    beat = request(group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=[topic])
    frame = encode_request(request, 1, beat, client_id="sharer")
    with socket.create_connection(("127.0.0.1", broker.port), timeout=30) as connection:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        head = connection.recv(4, socket.MSG_WAITALL)
        body = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    return decode_response(response, 1, memoryview(head + body))


def test_a_share_group_is_described_and_its_start_is_moved(rest: httpx.Client, broker: Broker) -> None:
    topic, group, member = fresh_name("shared"), fresh_name("sharers"), str(uuid.uuid4())
    rest.post("/v1/topics", json={"name": topic}).raise_for_status()
    sent = {"messages": [{"value": str(number)} for number in range(5)]}
    rest.post(f"/v1/topics/{topic}/messages", json=sent).raise_for_status()
    assert share_heartbeat(broker, group, member, 0, topic).error_code == 0
    at = f"/v1/groups/{group}"

    told = rest.get(at).json()
    [summary] = rest.get("/v1/groups", params={"type": "share", "search": group}).json()["items"]
    busy = rest.post(f"{at}/reset", json={"to": "earliest", "topic": topic})
    assert share_heartbeat(broker, group, member, -1, topic).error_code == 0
    moved = rest.post(f"{at}/reset", json={"to": {"offset": 2}, "topic": topic})

    assert (told["type"], [m["clientId"] for m in told["members"]]) == ("share", ["sharer"])
    assert (summary["type"], summary["members"]) == ("share", 1)
    assert (busy.status_code, busy.json()["code"]) == (409, "NON_EMPTY_GROUP")
    assert moved.status_code == 200, moved.text
    [offset] = rest.get(at).json()["offsets"]
    assert (offset["committed"], offset["endOffset"], offset["lag"]) == (2, 5, 3)
    assert rest.request("DELETE", f"{at}/offsets", json={"topic": topic}).status_code == 204
    assert rest.delete(at).status_code == 204
    assert rest.get(at).status_code == 404
