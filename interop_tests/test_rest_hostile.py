"""What hostile pages, clients and neighbours send to the HTTP port of a real broker, and what it must not do."""

import concurrent.futures
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import psutil
import pytest

from interop_tests.support.broker import Broker, external, running
from interop_tests.support.topics import fresh_name
from interop_tests.support.wait import until

pytestmark = pytest.mark.skipif(external() is not None, reason="the broker under test may have no HTTP door")

MIB = 1 << 20
JSON = {"content-type": "application/json"}
IMAGE = {"user-agent": "Mozilla/5.0", "accept": "image/avif,image/webp,*/*;q=0.8", "accept-language": "en"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("hostile"), http=True) as started:
        yield started


@pytest.fixture
def rest(broker: Broker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, timeout=30) as client:
        yield client


def connected(stack: ExitStack, broker: Broker, sent: bytes = b"") -> socket.socket:
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", broker.http_port or 0), timeout=30))
    connection.sendall(sent)
    return connection


def memory(broker: Broker) -> int:
    size: int = psutil.Process(broker.pid).memory_info().rss
    return size


# -- other sites' pages --------------------------------------------------------------------------------------------------
def test_a_page_whose_name_points_at_the_broker_makes_and_reads_nothing(rest: httpx.Client) -> None:
    rebound = {"host": "rebound.example:8080", "origin": "http://rebound.example:8080"}

    assert rest.post("/v1/topics", json={"name": "stolen"}, headers=rebound).status_code == 421
    assert rest.get("/v1/topics", headers={"host": "rebound.example"}).status_code == 421
    assert rest.get("/", headers={"host": "rebound.example"}).status_code == 421
    assert rest.get("/v1/topics?search=stolen").json()["items"] == []
    assert rest.get("/v1/topics", headers={"host": f"localhost:{rest.base_url.port}"}).status_code == 200


def test_neither_an_image_nor_a_head_takes_a_message(rest: httpx.Client) -> None:
    topic, group = fresh_name("images"), fresh_name("group")
    rest.post(f"/topic/{topic}/publish", json={"message": "mine", "priority": "high"}).raise_for_status()
    at = f"/topic/{topic}/consume?consumerID=worker"
    joined = rest.post(f"/v1/groups/{group}/join", json={"client_id": "c", "topics": [topic]}).json()
    poll = f"/v1/groups/{group}/poll?timeout=0&member_id={joined['member_id']}"

    for path in (at, poll, "/receiveMessage?consumerID=worker"):
        assert rest.get(path, headers=IMAGE).status_code == 403, path
        assert rest.head(path).status_code == 405, path

    assert [each["v"] for each in rest.get(at).json()["messages"]] == ["mine"]
    [polled] = rest.get(poll).json()["messages"]["0"]
    assert polled["value"] == "mine"


# -- crowds --------------------------------------------------------------------------------------------------------------
def test_silent_connections_keep_nobody_out(broker: Broker) -> None:
    with ExitStack() as stack:
        for _ in range(600):
            connected(stack, broker)
        for _ in range(5):
            assert httpx.get(f"{broker.http_url}/health/live", timeout=10).status_code == 200
        assert httpx.get(f"{broker.http_url}/v1/topics", timeout=10).status_code == 200


def test_the_health_is_told_while_all_connections_are_at_work(broker: Broker, rest: httpx.Client) -> None:
    topic = fresh_name("waits")
    rest.post("/v1/topics", json={"name": topic}).raise_for_status()
    body = b'{"waitMs": 20000}'
    head = f"POST /v1/queues/{topic}/groups/g/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request = head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body

    with ExitStack() as stack:
        for _ in range(600):
            connected(stack, broker, request)

        def refused() -> bool:
            try:
                return httpx.get(f"{broker.http_url}/v1/topics", timeout=10).status_code == 503
            except httpx.TransportError:
                return False

        until(refused, "all are at work", seconds=30)
        for _ in range(5):
            assert httpx.get(f"{broker.http_url}/health/live", timeout=10).status_code == 200


def test_bodies_that_are_only_promised_hold_up_no_other(broker: Broker, rest: httpx.Client) -> None:
    head = f"POST /v1/topics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {8 * MIB}\r\n\r\n{{"
    with ExitStack() as stack:
        for _ in range(64):
            connected(stack, broker, head.encode())
        time.sleep(0.5)  # the broker has read the heads: what is asserted holds before, too
        for _ in range(5):
            assert rest.post("/v1/topics", json={"name": fresh_name("held")}).status_code == 201


def test_clients_who_do_not_read_hold_no_more_than_the_budget(broker: Broker, rest: httpx.Client) -> None:
    topic = fresh_name("unread")
    rest.post("/v1/topics", json={"name": topic}).raise_for_status()
    for _ in range(8):
        rest.post(f"/v1/topics/{topic}/messages", json={"messages": [{"value": "\x01" * 700_000}]}).raise_for_status()
    asking = f"GET /v1/topics/{topic}/messages HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    before = memory(broker)
    with ExitStack() as stack:
        for _ in range(120):
            lazy = stack.enter_context(socket.socket())
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect(("127.0.0.1", broker.http_port or 0))
            lazy.sendall(asking)
        most, end = 0, time.monotonic() + 4
        while time.monotonic() < end:
            most = max(most, memory(broker) - before)
            assert httpx.get(f"{broker.http_url}/health/live", timeout=20).status_code == 200
    assert most < 420 * MIB
    until(lambda: rest.get("/v1/topics").status_code == 200, "there is room again", seconds=20)


# -- beside an innocent client -------------------------------------------------------------------------------------------
def test_a_head_of_many_headers_costs_next_to_nothing(broker: Broker) -> None:
    before = sum(psutil.Process(broker.pid).cpu_times()[:2])
    with ExitStack() as stack:
        for _ in range(20):
            sent = b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"a:\r\n" * 8_000 + b"\r\n"
            assert connected(stack, broker, sent).recv(100).startswith(b"HTTP/1.1 400")
    assert sum(psutil.Process(broker.pid).cpu_times()[:2]) - before < 2  # it was 3 seconds for one


LARGEST: list[tuple[str, str, Any]] = [
    ("POST", "/v1/topics/{topic}/messages", {"messages": [{"value": "x" * 700, "key": str(i)} for i in range(10_000)]}),
    ("POST", "/v1/topics/{topic}/messages", {"messages": [{"value": "\x01" * 1_000_000}]}),
    ("GET", "/v1/topics/{topic}/messages?limit=1000", None),
    ("GET", "/v1/topics/{topic}/messages?limit=1000&search=nothing", None),
    ("POST", "/v1/queues/{topic}/groups/{group}/acquire", {"max": 1000}),
    ("POST", "/v1/queues/{topic}/groups/{group}/ack", {"receipts": [f"r{i}" for i in range(1000)]}),
    ("PUT", "/v1/groups/{group}-c/offsets", {"offsets": [{"topic": "{topic}", "partition": 0, "offset": 0}] * 10_000}),
    ("POST", "/v1/topics/{topic}/truncate", {"offsets": {str(i): 0 for i in range(10_000)}}),
    ("POST", "/v1/acls", {"acls": []}),
    ("POST", "/v1/topics", "[" + "0," * 3_000_000 + "0]"),
    ("POST", "/v1/topics/{topic}/messages", '{"messages": [' + '{"value":""},' * 600_000 + '{"value":""}]}'),
]


@pytest.mark.parametrize(("method", "path", "body"), LARGEST, ids=[f"{m} {p}" for m, p, _ in LARGEST])
def test_the_largest_request_holds_up_no_innocent_client(
    broker: Broker, rest: httpx.Client, method: str, path: str, body: Any
) -> None:
    """While it is worked on, others are answered. How long they wait depends on the machine: the bound is that of a stall."""
    topic, group = fresh_name("largest"), fresh_name("group")
    rest.post("/v1/topics", json={"name": topic, "partitions": 1}).raise_for_status()
    filled = {"messages": [{"value": "x" * 3_000} for _ in range(1_000)]}
    rest.post(f"/v1/topics/{topic}/messages", json=filled).raise_for_status()
    sent = {"content": body, "headers": JSON} if isinstance(body, str) else {"json": body} if body is not None else {}
    at = path.replace("{topic}", topic).replace("{group}", group)

    waits = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.request, method, f"{broker.http_url}{at}", timeout=60, **sent)
        while not answer.done():
            begun = time.monotonic()
            rest.get("/health/live").raise_for_status()
            waits.append(time.monotonic() - begun)
    assert answer.result().status_code < 500, answer.result().text[:500]
    assert max(waits, default=0.0) < 1
