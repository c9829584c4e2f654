"""Sending and following by HTTP, on a broker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from kompat.admin import following, producing
from kompat.broker import Broker
from kompat.config.load import load


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    broker = Broker(load({"port": "0", "data": ":memory:", "kompat.http.port": "0"}, environ={}))
    await broker.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://{broker.http}", timeout=60) as found:
            assert (await found.post("/v1/topics", json={"name": "t"})).status_code == 201
            yield found
    finally:
        await broker.stop()


async def send(client: httpx.AsyncClient, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await client.post("/v1/topics/t/messages", json={"messages": messages})
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


async def test_what_a_batch_is_refused_for_does_not_hold_back_the_rest(client: httpx.AsyncClient) -> None:
    results = await send(client, {"value": "a"}, {"value": "too late", "delay": "999d"}, {"value": "b"})

    assert [result["offset"] for result in results] == [0, -1, 1]
    assert "kompat.delay.max.ms" in results[1]["error"]["detail"]
    assert await all_values(client) == ["a", "b"]


async def test_more_than_a_topic_takes_at_once_goes_in_several_batches_in_order(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = [{"value": f"{number:03}" + "x" * 100_000} for number in range(40)]
    for most in (producing.BATCH_BYTES, 1 << 30):  # as it is; and as if nobody knew what the topic takes
        monkeypatch.setattr(producing, "BATCH_BYTES", most)
        before = len(await all_values(client))
        results = await send(client, *large, {"value": "y" * 1_100_000})
        assert [result["offset"] for result in results] == [*range(before, before + 40), -1]
        assert results[-1]["error"]["code"] == "MESSAGE_TOO_LARGE"
        assert (await all_values(client))[before:] == [each["value"] for each in large]


async def all_values(client: httpx.AsyncClient) -> list[str]:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await client.get("/v1/topics/t/messages", params={"limit": 1000, **cursor})).json()
        found += [item["value"] for item in page["items"]]
        if page["nextCursor"] is None:
            return found
        cursor = {"cursor": page["nextCursor"]}


async def test_a_tail_that_has_nothing_to_tell_says_that_it_is_there(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "HEARTBEAT", 0.05)
    async with asyncio.timeout(30), client.stream("GET", "/v1/topics/t/tail") as answer:
        async for line in answer.aiter_lines():
            if line.startswith(":"):
                return
    pytest.fail("the stream ended")
