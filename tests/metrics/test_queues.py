"""What is kept between scrapes is never told wrongly: the depths are those of a count from the beginning."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kompat.broker import Broker
from kompat.config.load import load
from kompat.extensions.queues import statistics as queue_statistics
from kompat.handlers.support.services import Services
from kompat.metrics.page import Page
from kompat.metrics.queues import Queues
from kompat.protocol.records import Record, build_batch

TOPIC, GROUPS = "jobs", ("first", "second")


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    broker = Broker(load({"port": "0", "data": str(tmp_path / "data")}, environ={}))
    try:
        built = await broker._build_services()
        await built.cluster.auto_create([TOPIC])
        yield built
    finally:
        await broker.stop()


async def send(services: Services, classes: list[int]) -> None:
    now = services.clock.now()
    records = [Record(at, now, None, b"x", (("kompat-priority", b"%d" % each),)) for at, each in enumerate(classes)]
    appended = services.logs.find(TOPIC, 0).append(memoryview(build_batch(records)))  # type: ignore[union-attr]
    await appended.pending


def told(queues: Queues) -> dict[str, Counter[int]]:
    page = Page()
    for _ in queues.gather(page):
        pass
    found: dict[str, Counter[int]] = {}
    for line in page.lines():
        if line.startswith("kompat_queue_depth{"):
            group, class_ = line.split('"')[1], int(line.split('"')[5])
            found.setdefault(group, Counter())[class_] = int(line.rpartition(" ")[2])
    return found


def counted(services: Services) -> dict[str, Counter[int]]:
    return {
        live.key.group_id: Counter(list(queue_statistics.counting(live))[-1].classes) for live in services.shares.live
    }


@pytest.mark.parametrize("seed", range(8))
async def test_depths_are_those_of_a_fresh_count(
    services: Services, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_statistics, "PAGE", 3)  # so that there are many
    chance, queues = random.Random(seed), Queues(services)
    held: list[Any] = []
    for _ in range(60):
        match chance.randrange(5):
            case 0 | 1:
                await send(services, chance.choices(range(10), k=chance.randint(1, 6)))
            case 2:
                group = chance.choice(GROUPS)
                held += await services.queues.acquire(group, TOPIC, max_records=chance.randint(1, 5), begin="earliest")
            case 3:
                done, held = held[::2], held[1::2]
                await services.queues.accept([each.receipt for each in done])
            case 4:
                await services.queues.release([each.receipt for each in held], delay_ms=0)
                held = []
        expected, found = counted(services), told(queues)
        assert {group: +depth for group, depth in found.items()} == {group: +depth for group, depth in expected.items()}
    assert any(sum(depth.values()) for depth in told(queues).values())
