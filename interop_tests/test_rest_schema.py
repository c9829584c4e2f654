"""The whole door against its own OpenAPI: whatever fits the document, or does not, gets an answer that the document knows."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from confluent_kafka import Producer
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from interop_tests.support.broker import Broker, external, running
from interop_tests.support.rest import Door
from kompat.admin.openapi import document

EXAMPLES = 4  # for each operation, of what fits and of what does not
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ENDLESS = {("GET", "/v1/topics/{topic}/tail")}
TOPIC, GROUP = "known", "known-group"
KNOWN = {
    "topic": [TOPIC, f"dlq.{TOPIC}"],
    "group": [GROUP],
    "id": ["m-1"],
    "partition": [0, 1],
    "offset": [0, 1],
    "broker": [1],
}
# What would take away what the others are tried on.
DESTRUCTIVE = {("DELETE", "/v1/topics/{topic}"), ("POST", "/v1/cluster/brokers/{broker}/drain")}

load_all_checks()
API = schemathesis.openapi.from_dict(json.loads(document()))
OPERATIONS = {f"{each.ok().method.upper()} {each.ok().path}": each.ok() for each in API.get_all_operations()}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if external() is not None:
        pytest.skip("the door is kompat's own")
    with running(tmp_path_factory.mktemp("schema"), http=True) as started:
        with contextlib.closing(Door(started.http_url)) as door:
            fill(door)
        yield started


def fill(door: Door) -> None:
    """Something of everything."""
    door.post("/v1/topics", {"name": TOPIC, "partitions": 2}, status=201)
    door.send(
        TOPIC,
        {"value": "a", "partition": 0, "trace": True, "messageId": "m-1"},
        {"value": "/w==", "encoding": "base64", "partition": 1},
        {"value": "later", "partition": 0, "delay": "1h"},
        {"value": "urgent", "partition": 1, "priority": 9},
    )
    path = f"/v1/queues/{TOPIC}/groups/{GROUP}"
    for _ in range(2):
        taken = door.post(f"{path}/acquire", {"max": 1})["deliveries"]
        door.post(f"{path}/reject", {"receipts": [each["receipt"] for each in taken]})


@pytest.mark.parametrize("name", [name for name in OPERATIONS if tuple(name.split(" ")) not in ENDLESS])
def test_every_answer_is_one_that_the_document_knows(name: str, broker: Broker) -> None:
    operation = OPERATIONS[name]
    try_out(name, GenerationMode.POSITIVE, broker.http_url)
    if operation.body or operation.query:  # of an address alone there is little that could not be one
        try_out(name, GenerationMode.NEGATIVE, broker.http_url)


def try_out(name: str, mode: GenerationMode, url: str) -> None:
    operation = OPERATIONS[name]
    strategy = operation.as_strategy(generation_mode=mode)
    place = tuple(name.split(" "))

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(data=st.data())
    def one(data: st.DataObject) -> None:
        case = data.draw(strategy)
        if mode is GenerationMode.POSITIVE and place not in DESTRUCTIVE:
            name_what_is_there(case, data.draw)
        wait_little(case)
        case.call_and_validate(base_url=url, checks=CHECKS, timeout=60)

    try:
        one()
    except Unsatisfiable:  # it takes nothing that could be wrong
        assert mode is GenerationMode.NEGATIVE


def name_what_is_there(case: Case, draw: Callable[[Any], Any]) -> None:
    for name, values in KNOWN.items():
        if name in (case.path_parameters or {}) and draw(st.booleans()):
            case.path_parameters[name] = draw(st.sampled_from(values))


def wait_little(case: Case) -> None:
    if isinstance(case.body, dict) and isinstance(case.body.get("waitMs"), int):
        case.body["waitMs"] = min(case.body["waitMs"], 10)
    if case.query and "timeout" in case.query and case.operation.path.endswith("/poll"):
        case.query["timeout"] = 10


def resident(broker: Broker) -> int:
    """Megabytes."""
    text = Path(f"/proc/{broker.pid}/status").read_text()
    return next(int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmHWM"))


def test_large_and_malformed_bodies_hurt_nobody(broker: Broker) -> None:
    before = resident(broker)
    path = f"/v1/topics/{TOPIC}/messages"
    bodies = [
        b"[" * 4_000_000,
        b'{"messages": [' + b'{"value": "v"},' * 400_000 + b'{"value": "v"}]}',
        b'{"messages": [{"value": "' + b"x" * 7_000_000 + b'"}]}',
        b'{"messages": [{"value": "v", "headers": {' + b",".join(b'"%d": "v"' % n for n in range(300_000)) + b"}}]}",
        b"\xff" * 8_000_000,
        b'{"messages": ' + b"9" * 5_000_000 + b"}",
    ]

    def send(body: bytes) -> int:
        headers = {"content-type": "application/json"}
        with httpx.Client(base_url=broker.http_url, timeout=120) as client:
            return client.post(path, content=body, headers=headers).status_code

    is_over = threading.Event()
    with ThreadPoolExecutor(9) as pool:
        others = pool.submit(go_on, broker, is_over)
        statuses = list(pool.map(send, bodies * 4))
        is_over.set()
        assert others.result(60) > 0
    assert set(statuses) <= {400, 413, 503}
    assert {400, 413} <= set(statuses)
    assert resident(broker) - before < 400


def go_on(broker: Broker, is_over: threading.Event) -> int:
    """What other clients get done meanwhile: none of it fails."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, "delivery.timeout.ms": 60_000})
    done: list[Any] = []
    with contextlib.closing(Door(broker.http_url)) as door:
        while not is_over.is_set() or not done:
            producer.produce(TOPIC, b"v", on_delivery=lambda error, _: done.append(error))
            assert producer.flush(60) == 0
            assert door.get(f"/v1/topics/{TOPIC}")["name"] == TOPIC
    assert set(done) == {None}
    return len(done)
