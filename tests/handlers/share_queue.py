"""A topic with a share group of its own, and a broker for such topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any
from uuid import UUID

import pytest

import kompat.testing
from kompat.protocol.records import Record, build_batch
from tests.handlers.conftest import Asker
from tests.handlers.share import Member

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
NUMBERS = count()


@pytest.fixture(scope="module")
def ask() -> Iterator[Asker]:
    with kompat.testing.broker({"group.share.min.record.lock.duration.ms": 1000}) as running:
        yield Asker(running)


class Queue:
    """A topic and a share group of its own."""

    def __init__(self, ask: Asker, stack: ExitStack, partitions: int = 1, **settings: str) -> None:
        self.ask = ask
        self.stack = stack
        self.topic = ask.new_topic(partitions)
        described = ask("Metadata", 12, topics=[{"name": self.topic, "topic_id": None}])
        self.id: UUID = described.topics[0].topic_id
        self.group = f"group-{next(NUMBERS)}"
        self.set(share_auto_offset_reset="earliest", **settings)

    def set(self, **settings: str) -> None:
        configs = [
            {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in settings.items()
        ]
        resources = [{"resource_type": 32, "resource_name": self.group, "configs": configs}]
        answer = self.ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
        assert answer.responses[0].error_code == 0, answer

    def member(self, name: str, version: int = 2) -> Member:
        broker = self.ask.broker
        member = Member((broker.host, broker.port), self.group, name, version)
        self.stack.callback(member.close)
        return member

    def produce(self, *payloads: bytes, partition: int = 0, **batch: Any) -> int:
        records = [Record(i, 1_700_000_000_000, None, payload, []) for i, payload in enumerate(payloads)]
        data = [{"index": partition, "records": bytes(build_batch(records, **batch))}]
        answer = self.ask(
            "Produce", 9, acks=-1, timeout_ms=1000, topic_data=[{"name": self.topic, "partition_data": data}]
        )
        [response] = answer.responses[0].partition_responses
        assert response.error_code == 0, response
        return int(response.base_offset)

    def numbers(self, size: int, **batch: Any) -> int:
        return self.produce(*(b"%d" % i for i in range(size)), **batch)

    def said(self, *batches: tuple[int, int, list[int]], partition: int = 0) -> Any:
        return {(self.id, partition): batches}


@pytest.fixture
def queue(ask: Asker) -> Iterator[Callable[..., Queue]]:
    with ExitStack() as stack:
        yield lambda *args, **kwargs: Queue(ask, stack, *args, **kwargs)
