"""The README's pictures of the console, of a broker with real data: drawn anew with KOMPAT_PICTURES=1, for they change with every run."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import expect

from interop_tests.support.broker import running
from interop_tests.support.browser import SCHEMES, Scheme, Tab, chromium
from interop_tests.support.rest import Door
from interop_tests.support.shop import Shop, order

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
MOST_BYTES = 200_000
TRAFFIC_SECONDS = 100.0
CLASSES = ("critical", "high", "normal", "low", "background")
SIZE = {"width": 1200, "height": 760}

pytestmark = pytest.mark.skipif("KOMPAT_PICTURES" not in os.environ, reason="pictures are drawn with KOMPAT_PICTURES=1")


class Traffic:
    """Customers who come and go: for charts that show something."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._read, self._lag)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(30)

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5, "log_level": 0})
        number = 1000
        while not self._ending.wait(0.05):
            rush = 3 if int(time.time()) % 40 > 26 else 1
            for _ in range(rush * random.randint(8, 14)):
                number += 1
                producer.produce("payments", order(number), f"order-{number}", number % 2)
            producer.poll(0)
        producer.flush(10)

    def _read(self) -> None:
        self._consume("search-index", 500, 0.05)

    def _lag(self) -> None:
        self._consume("fraud-check", 12, 0.08)

    def _consume(self, group: str, most: int, seconds: float) -> None:
        settings = {"group.id": group, "client.id": f"{group}-1", "log_level": 0, "auto.commit.interval.ms": 1000}
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "auto.offset.reset": "earliest", **settings})
        consumer.subscribe(["payments"])
        while not self._ending.wait(seconds):
            consumer.consume(most, 0.2)
        consumer.close()


@pytest.mark.timeout(600)
def test_pictures(tmp_path: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    with (
        running(tmp_path / "broker", http=True) as broker,
        contextlib.closing(Door(broker.http_url)) as door,
        contextlib.closing(Shop(broker.bootstrap, door).make()) as shop,
        Traffic(broker.bootstrap),
        chromium() as browser,
    ):
        place = more(shop)
        tabs = {scheme: Tab(browser, broker.http_url, **SIZE, scheme=scheme) for scheme in SCHEMES}
        time.sleep(TRAFFIC_SECONDS)
        for scheme, tab in tabs.items():
            draw(tab, scheme, place)
            tab.close()
        phone = Tab(browser, broker.http_url, width=390, height=760, scheme="dark")
        phone.open("groups", "fraud-check")
        time.sleep(12)
        picture(phone, "console-phone-dark")
        phone.close()
    for file in PICTURES.glob("console-*.png"):
        assert file.stat().st_size < MOST_BYTES, file


def more(shop: Shop) -> tuple[int, int]:
    """Delays over an hour, a queue with a backlog; and where a record is that has been through a lot."""
    door = shop.door
    minutes = [min(59, random.expovariate(1 / 18)) for _ in range(260)]
    late = (
        {"key": f"mail-{n}", "value": f"remind customer {n}", "delay": int(m * 60_000) + 1000}
        for n, m in enumerate(minutes)
    )
    door.send("reminders", *late)
    for number, urgency in enumerate(random.choices(CLASSES, (2, 12, 60, 20, 6), k=500)):
        door.send("orders", {"key": f"order-{100 + number}", "value": order(number), "priority": urgency})
    queue = "/v1/queues/orders/groups/billing"
    for count in (30, 18, 9):
        taken = door.post(f"{queue}/acquire", {"max": count, "waitMs": 10_000, "lockMs": 3_600_000})["deliveries"]
        door.post(f"{queue}/nack", {"receipts": [each["receipt"] for each in taken], "delay": 1})
    door.post(f"{queue}/acquire", {"max": 24, "waitMs": 10_000, "lockMs": 3_600_000})
    return _story(door)


def _story(door: Door) -> tuple[int, int]:
    door.post("/v1/topics", {"name": "parcels"}, status=201)
    told = {"key": "order-77", "value": order(77), "trace": True, "delay": "2s", "priority": 9, "messageId": "p-77"}
    [sent] = door.send("parcels", told)
    queue = "/v1/queues/parcels/groups/packing"
    for answer, rest in (("nack", {"delay": "1500ms"}), ("ack", {})):
        taken: list[Any] = []
        while not taken:
            taken = door.post(f"{queue}/acquire", {"waitMs": 20_000})["deliveries"]
        time.sleep(0.7)
        door.post(f"{queue}/{answer}", {"receipts": [taken[0]["receipt"]], **rest})
    return sent["partition"], sent["offset"]


def draw(tab: Tab, scheme: Scheme, place: tuple[int, int]) -> None:
    page = tab.open()
    expect(page.locator("line-chart path.line").first).to_be_attached()
    picture(tab, f"console-overview-{scheme}")
    tab.open("topics", "orders", "messages")
    tab.row().nth(3).get_by_role("button").click()
    picture(tab, f"console-message-{scheme}")
    page.keyboard.press("Escape")
    tab.open("topics", "parcels", *(str(each) for each in place), "trace")
    picture(tab, f"console-trace-{scheme}")
    tab.open("delayed", topic="reminders")
    picture(tab, f"console-delayed-{scheme}")
    tab.open("queues", "orders", "billing")
    time.sleep(6)
    picture(tab, f"console-queue-{scheme}")


def picture(tab: Tab, name: str) -> None:
    tab.settle()
    tab.page.mouse.move(0, 0)
    tab.page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
