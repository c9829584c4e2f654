"""A small shop's worth of real data, made by real clients: topics, groups, a queue, dead letters, delays, traces, a transaction."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop_tests.support.rest import Door
from interop_tests.support.wait import until

ORDERS = 60
PARTITIONS = 3
BIG = 12345678901234567890  # more than a double holds
HOSTILE = '<img src=x onerror="window.hurt=1"><script>window.hurt=2</script>"\'><svg onload=window.hurt=3>'
URGENT = ("critical", "high", "low")
SECONDS = 60.0


class Shop:
    """What the broker holds, so that tests can compare."""

    def __init__(self, bootstrap: str, door: Door) -> None:
        self.bootstrap = bootstrap
        self.door = door
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._clients: list[Consumer] = []
        self._open: Producer | None = None

    def make(self) -> Shop:
        self._topics()
        self._orders()
        self._hostile()
        self._reminders()
        self._queue()
        self._groups()
        self._transaction()
        return self

    def close(self) -> None:
        for consumer in self._clients:
            consumer.close()
        if self._open is not None:
            self._open.purge()

    # -- making ----------------------------------------------------------------------------------------------------
    def _topics(self) -> None:
        named = {"orders": PARTITIONS, "reminders": 1, "hostile": 1, "payments": 2, "work.items": 1}
        for future in self.admin.create_topics([NewTopic(name, n, 1) for name, n in named.items()]).values():
            future.result(SECONDS)

    def _orders(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, "client.id": "shop-web"})
        for number in range(ORDERS):
            headers: list[tuple[str, bytes]] = [("source", b"web")]
            if number % 10 < len(URGENT):
                headers.append(("kompat-priority", URGENT[number % 10].encode()))
            if number == 0:
                headers.append(("kompat-trace", b"1"))
            producer.produce("orders", order(number), f"order-{number}", number % PARTITIONS, headers=headers)
        producer.produce("payments", bytes(range(240, 256)), b"\xff\x00", 0)
        producer.produce("payments", None, "order-7", 1)
        producer.flush(SECONDS)

    def _hostile(self) -> None:
        headers = [{"name": HOSTILE, "value": HOSTILE}]
        body = json.dumps({HOSTILE: HOSTILE, "big": BIG})
        self.door.send(
            "hostile", {"key": HOSTILE, "value": HOSTILE, "headers": headers}, {"key": "json", "value": body}
        )

    def _reminders(self) -> None:
        for number, delay in enumerate(("10m", "12m", "40m", "2h")):
            self.door.send("reminders", {"key": f"tea-{number}", "value": f"tea {number} is ready", "delay": delay})

    def _queue(self) -> None:
        """Two orders become dead letters, three are in flight."""
        address = "/v1/queues/orders/groups/billing"
        taken = self.door.post(f"{address}/acquire", {"max": 5, "waitMs": 10_000, "lockMs": 3_600_000})["deliveries"]
        assert len(taken) == 5
        self.rejected = [(each["partition"], each["offset"]) for each in taken[:2]]
        self.door.post(f"{address}/reject", {"receipts": [each["receipt"] for each in taken[:2]]})
        until(lambda: self.letters() == 2, "two dead letters", seconds=SECONDS)

    def _groups(self) -> None:
        """One with a member that has committed ten records, one without members, at the start."""
        audit = self._consumer("audit")
        audit.subscribe(["orders"])
        until(lambda: (audit.poll(0.1), audit.assignment())[1], "an assignment", seconds=SECONDS)
        audit.pause(audit.assignment())
        audit.commit(offsets=[TopicPartition("orders", 0, 10)], asynchronous=False)
        nightly = self._consumer("nightly")
        nightly.commit(offsets=[TopicPartition("orders", each, 0) for each in range(PARTITIONS)], asynchronous=False)
        nightly.close()
        self._clients.remove(nightly)

    def _consumer(self, group: str) -> Consumer:
        settings = {"group.id": group, "client.id": f"{group}-1", "enable.auto.commit": False, "log_level": 0}
        found = Consumer({"bootstrap.servers": self.bootstrap, "auto.offset.reset": "earliest", **settings})
        self._clients.append(found)
        return found

    def _transaction(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": "copy-1", "log_level": 0}
        self._open = Producer(settings | {"transaction.timeout.ms": 600_000})
        self._open.init_transactions(SECONDS)
        self._open.begin_transaction()
        self._open.produce("work.items", b"not yet")
        self._open.flush(SECONDS)

    # -- looking ---------------------------------------------------------------------------------------------------
    def letters(self) -> int:
        return sum(each["records"] for each in self.door.all("/v1/dead-letters"))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        told = self.door.get(f"/v1/groups/{group}")["offsets"]
        return {each["partition"]: each["committed"] for each in told if each["topic"] == topic}

    def read(self, topic: str, partitions: int = 1) -> list[Any]:
        """All records there are, as a Kafka client gets them."""
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader", "log_level": 0})
        try:
            ends = {
                each: reader.get_watermark_offsets(TopicPartition(topic, each), 10)[1] for each in range(partitions)
            }
            reader.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
            found: list[Any] = []

            def is_read() -> bool:
                found.extend(message for message in reader.consume(500, 0.1) if message.error() is None)
                places = {place.partition: place.offset for place in reader.position(reader.assignment())}
                return all(places.get(each, 0) >= end for each, end in ends.items())

            until(is_read, f"all of {topic}", seconds=SECONDS)
            return found
        finally:
            reader.close()


def order(number: int) -> str:
    items = [{"sku": f"A-{number}", "count": 1 + number % 3}]
    return json.dumps({"order": BIG + number, "customer": f"c-{number % 7}", "items": items, "paid": number % 2 == 0})
