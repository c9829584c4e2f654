"""What no handler of Kafka's judges is judged by the same ACLs: who may do nothing gets nothing from the door."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from kompat.broker import Broker
from kompat.config.load import load

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
QUEUE = "/v1/queues/orders/groups/g"
FORBIDDEN: list[tuple[str, str, Any]] = [
    ("POST", "/v1/topics/orders/messages", {"messages": [{"value": "v"}]}),
    ("GET", "/v1/topics/orders/messages", None),
    ("GET", "/v1/topics/orders/partitions/0/messages", None),
    ("GET", "/v1/topics/orders/partitions/0/messages/0", None),
    ("GET", "/v1/topics/orders/partitions/0/messages/0/trace", None),
    ("GET", "/v1/topics/orders/tail", None),
    ("GET", "/v1/topics/orders/delayed", None),
    ("GET", "/v1/topics/orders/delayed/timeline", None),
    ("GET", "/v1/topics/orders/delayed/0/0", None),
    ("DELETE", "/v1/topics/orders/delayed/0/0", None),
    ("PATCH", "/v1/topics/orders/delayed/0/0", {"delay": 1}),
    ("GET", "/v1/delayed/statistics", None),
    ("GET", "/v1/delayed/statistics?topic=orders", None),
    ("GET", QUEUE, None),
    ("POST", f"{QUEUE}/acquire", {}),
    ("GET", "/v1/dead-letters/orders/messages", None),
    ("POST", "/v1/dead-letters/orders/redrive", {"all": True}),
    ("POST", "/v1/dead-letters/orders/purge", {"all": True}),
    ("GET", "/v1/traces", None),
    ("GET", "/v1/traces/any", None),
    ("GET", "/v1/delay/stats", None),
    ("GET", "/v1/priority/stats", None),
    ("GET", "/v1/reliability/stats", None),
    ("POST", "/v1/groups/g/join", {"client_id": "c", "topics": ["orders"]}),
    ("GET", "/v1/groups/g/poll?member_id=m&timeout=0", None),
    ("POST", "/topic/orders/publish", {"message": "m", "priority": "low"}),
    ("POST", "/topic/new/publish", {"message": "m", "priority": "low"}),
    ("GET", "/topic/orders/consume?consumerID=c", None),
    ("GET", "/topic/orders/peek", None),
    ("GET", "/raft/stats?topic=orders", None),
    ("POST", "/topics", {"name": "new"}),
    ("POST", "/sendMessage", {"topic": "orders", "data": "dg=="}),
    ("POST", "/connect", {"consumerID": "c", "consumerGroup": "g", "topics": ["orders"]}),
]
EMPTY = [("GET", "/v1/queues", "items"), ("GET", "/v1/dead-letters", "items"), ("GET", "/topics", "topics")]


@pytest.fixture(scope="module")
def users() -> dict[str, str]:
    return {"admin": "secret of the admin", "nobody": "secret of nobody"}


@pytest.fixture
async def client(users: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    file = tmp_path_factory.mktemp("users") / "users"
    file.write_text(
        "".join(f"SCRAM-SHA-256=[name={name},password={word},iterations=4096]\n" for name, word in users.items())
    )
    settings = {
        "port": "0",
        "data": ":memory:",
        "kompat.http.port": "0",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
        "kompat.bootstrap.scram.file": str(file),
    }
    broker = Broker(load(settings, environ={}))
    await broker.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://{broker.http}", timeout=60) as found:
            yield found
    finally:
        await broker.stop()


def as_user(name: str, users: dict[str, str]) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{users[name]}".encode()).decode()}


async def test_who_may_nothing_gets_nothing(client: httpx.AsyncClient, users: dict[str, str]) -> None:
    admin, nobody = as_user("admin", users), as_user("nobody", users)
    made = await client.post("/v1/topics", json={"name": "orders"}, headers=admin)
    assert made.status_code == 201, made.text
    await client.post("/v1/topics/orders/messages", json={"messages": [{"value": "v"}]}, headers=admin)
    taken = (await client.post(f"{QUEUE}/acquire", headers=admin)).json()["deliveries"]

    for method, path, body in FORBIDDEN:
        answer = await client.request(method, path, json=body, headers=nobody)
        assert answer.status_code == 403, f"{method} {path}: {answer.status_code} {answer.text}"
        assert answer.json()["code"].endswith("AUTHORIZATION_FAILED")
    for method, path, name in EMPTY:
        answer = await client.request(method, path, headers=nobody)
        assert (answer.status_code, answer.json()[name]) == (200, []), path
    word = await client.post(f"{QUEUE}/ack", json={"receipts": [taken[0]["receipt"]]}, headers=nobody)
    assert "AUTHORIZATION_FAILED" in word.json()["results"][0]["error"]["code"]
    single = await client.post("/v1/messages/ack", json={"receipt": taken[0]["receipt"]}, headers=nobody)
    assert single.status_code == 403
    assert (await client.get("/v1/topics/orders/messages")).status_code == 401
