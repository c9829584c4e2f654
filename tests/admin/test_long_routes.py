"""No route holds the event loop, however large the topic is that it tells of: every route that reads, by the processor's time of its longest turn."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kompat.admin.app import STREAM, Application
from kompat.admin.broker_info import BrokerInfo
from kompat.admin.route import Route
from kompat.admin.routes import all_routes
from kompat.admin.sampling import Sampler
from kompat.admin.sites import Sites
from kompat.broker import Broker
from kompat.cluster.topics import MAX_PARTITIONS_PER_REQUEST
from kompat.config.load import load
from tests.handlers.turns import LONGEST_TURN, TRIES, create_topic

TOPIC = "large"
NAMES = {
    "topic": TOPIC,
    "group": "g",
    "partition": "1",
    "offset": "0",
    "broker": "1",
    "file": "app.js",
    "folder": "views",
    "id": "x",
    "user": "u",
}
QUERIES = {"/topic/{topic}/peek": b"batch=1000"}


@pytest.fixture
async def application() -> AsyncIterator[Application]:
    config = load({"port": "0", "data": ":memory:", "auto.create.topics.enable": "false"}, environ={})
    broker = Broker(config)
    try:
        services = await broker._build_services()
        await create_topic(services, TOPIC, MAX_PARTITIONS_PER_REQUEST)
        application = Application(all_routes(), config, Sites(config, "localhost"))
        sampler = Sampler(services.meters, services.clock)
        BrokerInfo(services, "127.0.0.1:8080", sampler)
        application.serve(services, ("127.0.0.1", 9092), sampler)
        yield application
    finally:
        await broker.stop()


@pytest.mark.slow
async def test_no_route_that_reads_holds_the_event_loop(application: Application) -> None:
    turns: dict[str, float] = {}
    gc.collect()
    gc.disable()
    try:
        for route in application.routes:
            if route.method == "GET" and not route.has_effects and route.media != STREAM:
                turns[route.path] = await _shortest_of_longest(application, route)
    finally:
        gc.enable()

    assert {path: seconds for path, seconds in turns.items() if seconds >= LONGEST_TURN} == {}


async def _shortest_of_longest(application: Application, route: Route) -> float:
    found: list[float] = []
    while len(found) < TRIES and min(found, default=LONGEST_TURN) >= LONGEST_TURN:
        found.append(await _longest_turn(application, route))
    return min(found)


async def _longest_turn(application: Application, route: Route) -> float:
    statuses: list[int] = []
    longest, begun = 0.0, time.thread_time()
    answering = asyncio.ensure_future(_answered(application, route, statuses))
    while not answering.done():
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - begun)
        begun = time.thread_time()
    await answering
    assert statuses != [500], route.path
    return longest


async def _answered(application: Application, route: Route, statuses: list[int]) -> None:
    path = route.path.format(**NAMES)
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": QUERIES.get(route.path, b""),
        "headers": [(b"host", b"127.0.0.1:8080")],
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8080),
        "scheme": "http",
        "root_path": "",
        "state": {},
    }

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await application.asgi(scope, receive, send)
