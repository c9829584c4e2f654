"""From a request to an answer, without a broker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from kompat.admin.app import Application
from kompat.admin.http_server import _listening
from kompat.admin.limits import SHARE_BYTES, Bodies
from kompat.admin.requests import Requests
from kompat.admin.route import Call, Route
from kompat.admin.serving import Serving
from kompat.admin.shapes import Answer, Body
from kompat.admin.sites import Sites
from kompat.common.meters import OTHER, Meters
from kompat.config.broker import BrokerConfig
from kompat.errors import ErrorCode, KafkaError

MOST = 1000


class Said(Body):
    text: str


class Echo(Answer):
    text: str
    principal: str


async def echo(call: Call) -> Echo:
    return Echo(text=call.body.text, principal=call.principal)


async def broken(_: Call) -> None:
    raise ValueError("a secret of the broker")


async def wait(call: Call) -> Echo:
    await call.unless_stopping(asyncio.Event().wait())
    return Echo(text="ended", principal="")


began = asyncio.Event()


async def stream(call: Call) -> None:
    with call.streams.slot():
        began.set()
        await call.unless_stopping(asyncio.Event().wait())


class Election:
    """Nobody leads, until `rounds` have asked in vain."""

    def __init__(self) -> None:
        self.rounds = 0

    async def ask(self, _: Call) -> Echo:
        if self.rounds:
            self.rounds -= 1
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody leads")
        return Echo(text="led", principal="")


election = Election()


class Quotas:
    """Of the time of the event loop: nobody has to wait."""

    is_enabled = False

    def __init__(self) -> None:
        self.spent = 0.0

    def worked(self, _principal: str, _client_id: str, seconds: float) -> int:
        self.spent += seconds
        return 0


async def work(_: Call) -> Echo:
    """Works for a while, and waits for much longer."""
    until = perf_counter() + 0.02
    while perf_counter() < until:
        pass
    await asyncio.sleep(0.2)
    return Echo(text="done", principal="")


taken: list[str] = []


async def take(_: Call) -> Echo:
    taken.append("one")
    return Echo(text="one", principal="")


async def large(_: Call) -> Echo:
    return Echo(text="x" * (8 << 20), principal="")


async def whence(call: Call) -> Echo:
    return Echo(text=call.caller.client_host, principal="")


ROUTES = [
    Route(method="GET", path="/take", handle=take, summary="", tag="", has_effects=True),
    Route(method="GET", path="/large", handle=large, summary="", tag=""),
    Route(method="GET", path="/from", handle=whence, summary="", tag=""),
    Route(method="GET", path="/work/{name}", handle=work, summary="", tag=""),
    Route(method="GET", path="/led", handle=election.ask, summary="", tag=""),
    Route(method="POST", path="/led", handle=election.ask, summary="", tag=""),
    Route(method="POST", path="/echo", handle=echo, summary="", tag="", body=Said),
    Route(method="GET", path="/broken", handle=broken, summary="", tag=""),
    Route(method="GET", path="/wait", handle=wait, summary="", tag=""),
    Route(method="GET", path="/stream", handle=stream, summary="", tag=""),
]


def served() -> Application:
    config = BrokerConfig(
        {
            "kompat.http.max.body.bytes": str(MOST),
            "kompat.http.max.streams": "1",
            "kompat.http.allowed.hosts": "broker",
        }
    )
    application = Application(ROUTES, config, Sites(config, "machine"))
    services: Any = SimpleNamespace(
        config=config, authorizer=SimpleNamespace(is_enabled=False), meters=Meters(), quotas=Quotas()
    )
    application.services = services
    application.requests = Requests(services)
    return application


@pytest.fixture
async def application() -> Application:
    return served()


@pytest.fixture
async def client(application: Application) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://broker") as client:
        yield client


async def test_a_route_gets_its_body_and_its_caller(client: httpx.AsyncClient) -> None:
    answer = await client.post("/echo", json={"text": "hello"})

    assert answer.json() == {"text": "hello", "principal": "User:ANONYMOUS"}
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_bug_is_answered_without_its_details(client: httpx.AsyncClient) -> None:
    answer = await client.get("/broken")

    assert answer.status_code == 500
    assert "secret" not in answer.text


async def test_another_method_is_told_all_that_an_address_takes(client: httpx.AsyncClient) -> None:
    refused, asked = await client.put("/led"), await client.options("/led")

    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
    assert "PUT" in refused.json()["detail"]
    assert (asked.status_code, asked.headers["allow"]) == (204, "GET, HEAD, POST")
    assert (await client.options("/nowhere")).status_code == 404


async def test_requests_are_counted_by_route_and_status(application: Application, client: httpx.AsyncClient) -> None:
    for path in ("/broken", "/broken", "/nothing", "/elsewhere"):
        await client.get(path)
    await client.request("BREW", "/broken")
    await client.post("/echo", json={})
    await client.post("/echo", json={"text": "hello"})

    assert application.services is not None
    counted = {route: meter.statuses for route, meter in application.services.meters.http.items()}
    assert counted == {
        ("GET", "/broken"): {500: 2},
        (OTHER, OTHER): {404: 2, 405: 1},
        ("POST", "/echo"): {400: 1, 200: 1},
    }
    assert application.services.meters.http["POST", "/echo"].count == 2


async def test_the_time_of_the_event_loop_is_charged_where_somebody_has_a_quota(
    application: Application, client: httpx.AsyncClient
) -> None:
    quotas: Any = application.services.quotas  # type: ignore[union-attr]
    await client.get("/work/one")
    assert quotas.spent == 0

    quotas.is_enabled = True
    await client.get("/work/two")
    assert 0.02 <= quotas.spent < 0.2


async def test_a_route_is_known_by_how_long_it_has_held_the_event_loop(
    application: Application, client: httpx.AsyncClient
) -> None:
    await client.get("/work/one")

    assert application.services is not None
    [held] = [each for (_, path), each in application.services.meters.http.items() if path.startswith("/work/")]
    assert 0.02 <= held.longest_stretch < 0.2  # while it only waited, it held nobody up


async def test_what_reads_waits_for_a_leader_and_what_writes_is_told(
    application: Application, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kompat.admin.app.AGAIN_SECONDS", 0.0)
    election.rounds = 3
    assert (await client.post("/led")).status_code == 503
    assert (await client.get("/led")).json()["text"] == "led"
    assert election.rounds == 0

    election.rounds = 3
    application.stopping.set()
    assert (await client.get("/led")).status_code == 503
    assert election.rounds == 2
    monkeypatch.setattr("kompat.admin.app.ELECTION_SECONDS", -1.0)
    application.stopping.clear()
    assert (await client.get("/led")).status_code == 503
    assert election.rounds == 1


async def test_before_the_broker_is_up_whoever_comes_is_told_to_wait(
    client: httpx.AsyncClient, application: Application
) -> None:
    application.services = None

    assert (await client.get("/wait")).headers["retry-after"] == "1"


async def test_a_body_that_does_not_come_is_not_waited_for(application: Application, client: httpx.AsyncClient) -> None:
    application.bodies = Bodies(application.share, seconds=0.01)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    answer = await client.post("/echo", content=endless(), headers={"content-type": "application/json"})
    assert answer.status_code == 408


async def test_a_request_waits_for_room_and_is_refused_if_there_is_none(
    application: Application, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kompat.admin.limits.Share.until_room.__defaults__", (0.05,))
    application.share.take(SHARE_BYTES)
    refused = await client.post("/echo", json={"text": "x"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")

    monkeypatch.setattr("kompat.admin.limits.Share.until_room.__defaults__", (30.0,))
    waiting = asyncio.ensure_future(client.post("/echo", json={"text": "x"}))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    application.share.give_back(SHARE_BYTES)
    assert (await waiting).status_code == 200
    assert application.share.used == 0


async def test_bodies_that_are_only_promised_take_no_room(application: Application, client: httpx.AsyncClient) -> None:
    ended = asyncio.Event()

    async def begun() -> AsyncIterator[bytes]:
        yield b"{"
        await ended.wait()
        yield b"}"

    head = {"content-type": "application/json", "content-length": str(MOST)}
    promised = [asyncio.ensure_future(client.post("/echo", content=begun(), headers=head)) for _ in range(20)]
    await asyncio.sleep(0.05)
    assert application.share.used == 20  # what has come of them

    assert (await client.post("/echo", json={"text": "x"})).status_code == 200
    ended.set()
    assert {(await each).status_code for each in promised} == {400}
    assert application.share.used == 0


async def test_the_slowest_body_gives_way_when_there_is_no_room(
    application: Application, client: httpx.AsyncClient
) -> None:
    application.bodies = Bodies(application.share, slow_seconds=0.0)

    async def stuck() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    slow = asyncio.ensure_future(client.post("/echo", content=stuck(), headers={"content-type": "application/json"}))
    await asyncio.sleep(0.02)

    async def long() -> AsyncIterator[bytes]:
        yield b'{"text":'
        application.share.take(SHARE_BYTES)
        yield b'"x"}'

    quick = await client.post("/echo", content=long(), headers={"content-type": "application/json"})
    assert quick.status_code == 200
    assert (await asyncio.wait_for(slow, 30)).status_code == 503


async def test_what_waits_ends_with_the_broker(application: Application, client: httpx.AsyncClient) -> None:
    waiting = asyncio.ensure_future(client.get("/wait"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    application.stopping.set()

    assert (await waiting).json()["text"] == "ended"


async def test_streams_are_bounded(application: Application, client: httpx.AsyncClient) -> None:
    began.clear()
    first = asyncio.ensure_future(client.get("/stream"))
    await asyncio.wait_for(began.wait(), 10)
    second = await client.get("/stream")
    application.stopping.set()

    assert (second.status_code, second.json()["type"]) == (503, "urn:kompat:problem:too-many-streams")
    assert (await first).status_code == 204
    assert application.streams.count == 0


@asynccontextmanager
async def listening(
    head_seconds: float = 30, most: int = 10, unread_seconds: float = 60
) -> AsyncIterator[tuple[Serving, tuple[str, int]]]:
    bound = _listening("127.0.0.1", 0)
    serving = Serving(served(), most, head_seconds=head_seconds, unread_seconds=unread_seconds)
    await serving.start(bound)
    try:
        yield serving, bound.getsockname()
    finally:
        await serving.close(1)
        bound.close()


@asynccontextmanager
async def connected(head_seconds: float) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with listening(head_seconds) as (_, place):
        reader, writer = await asyncio.open_connection(*place)
        try:
            yield reader, writer
        finally:
            writer.close()


UNREAD = b"POST /nowhere HTTP/1.1\r\nhost: broker\r\ncontent-length: 100000\r\n\r\n"  # it is answered before its body is there


@pytest.mark.parametrize(
    "sent", [b"GET /wait HTTP/1.1\r\nhost: broker\r\nx: ", UNREAD + b"x"], ids=["head", "unread body"]
)
async def test_who_does_not_get_on_is_cut_off(sent: bytes) -> None:
    async with connected(0.05) as (reader, writer):
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            left = await asyncio.wait_for(reader.read(), 30)  # until it is closed
            assert b"problem:not-http" not in left


async def test_an_answer_that_comes_before_its_body_is_read_does_not_end_the_connection() -> None:
    async with connected(30) as (reader, writer):
        writer.write(UNREAD)
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        for _ in range(100):  # longer than any head
            writer.write(b"x" * 1000)
            await writer.drain()
        writer.write(b"GET /broken HTTP/1.1\r\nhost: broker\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"HTTP/1.1 "), 30)  # behind the first answer
        assert (await reader.readline()).startswith(b"500")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://broker"}, 200),
        ({"origin": "http://elsewhere"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://proxy", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "http://broker", "sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
)
async def test_pages_from_elsewhere_change_nothing(
    client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    assert (await client.post("/echo", json={"text": "x"}, headers=headers)).status_code == status


# -- what a browser may have been made to send ---------------------------------------------------------------------------
async def test_pages_from_elsewhere_read_nothing_but_links_may_be_followed(client: httpx.AsyncClient) -> None:
    image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    frame = link | {"sec-fetch-dest": "iframe"}

    statuses = [(await client.get("/led", headers=sent)).status_code for sent in (image, frame, link)]
    assert statuses == [403, 403, 200]
    assert (await client.get("/led", headers={"origin": "http://elsewhere"})).status_code == 403
    assert (await client.get("/nowhere", headers=image)).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin"},
        {"origin": "http://broker"},
        {"referer": "http://broker/"},
        {"user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
        {"accept-language": "en-US,en;q=0.5"},
    ],
)
async def test_no_browser_takes_messages_by_a_get(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    taken.clear()

    assert (await client.get("/take", headers=headers)).status_code == 403
    assert taken == []
    assert (await client.get("/take", headers={"accept-language": "*"})).status_code == 200
    assert taken == ["one"]


async def test_a_head_has_no_effects(client: httpx.AsyncClient) -> None:
    taken.clear()
    refused = await client.head("/take")

    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    assert taken == []
    assert (await client.head("/led")).status_code == 200


async def test_who_calls_the_broker_by_another_name_is_refused_whatever_it_asks_for(
    client: httpx.AsyncClient, application: Application
) -> None:
    for path in ("/led", "/nowhere"):
        answer = await client.get(path, headers={"host": "rebound.example"})
        assert (answer.status_code, answer.json()["type"]) == (421, "urn:kompat:problem:unknown-host")
    assert application.services is not None
    assert application.services.meters.http[OTHER, OTHER].statuses == {421: 2}


@pytest.mark.parametrize(
    ("hosts", "status"), [("", 400), ("host: broker\r\nhost: broker\r\n", 400), ("host: broker\r\n", 200)]
)
async def test_a_request_has_one_host(hosts: str, status: int) -> None:
    async with connected(30) as (reader, writer):
        writer.write(f"GET /led HTTP/1.1\r\n{hosts}\r\n".encode())
        line = await asyncio.wait_for(reader.readline(), 30)
    assert line.startswith(f"HTTP/1.1 {status}".encode())


async def test_the_cost_of_a_head_grows_with_its_length_alone() -> None:
    """Eight thousand headers are refused at the hundredth, instead of being counted again with every further one."""
    async with connected(30) as (reader, writer):
        writer.write(b"GET /led HTTP/1.1\r\nhost: broker\r\n" + b"a:\r\n" * 7_500 + b"\r\n")
        line = await asyncio.wait_for(reader.readline(), 30)
    assert line.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("count", [99, 100])
async def test_a_head_has_a_hundred_headers_at_most(count: int) -> None:
    async with connected(30) as (reader, writer):
        writer.write(b"GET /led HTTP/1.1\r\nhost: broker\r\n" + b"a: b\r\n" * count + b"\r\n")
        line = await asyncio.wait_for(reader.readline(), 30)
    assert line.startswith(b"HTTP/1.1 200" if count == 99 else b"HTTP/1.1 400")


async def test_nobody_is_believed_where_a_request_comes_from() -> None:
    async with connected(30) as (reader, writer):
        writer.write(
            b"GET /from HTTP/1.1\r\nhost: broker\r\nx-forwarded-for: 10.1.1.1\r\nforwarded: for=10.1.1.1\r\n\r\n"
        )
        answer = await asyncio.wait_for(reader.readuntil(b"}"), 30)
    assert b'"127.0.0.1"' in answer
