"""A topic with records of several times, and ListOffsets over it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.handlers.conftest import Asker
from tests.handlers.records import produce

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
NOW = int(time.time() * 1000)


def look_up(
    ask: Asker, topic: str, timestamp: int, version: int = 11, index: int = 0, **more: Any
) -> tuple[int, int, int]:
    """Error code, offset and timestamp."""
    epoch = more.pop("current_leader_epoch", -1)
    asked = {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}
    answer = ask("ListOffsets", version, topics=[{"name": topic, "partitions": [asked]}], **more)
    [partition] = answer.topics[0].partitions
    return partition.error_code, partition.offset, partition.timestamp


@pytest.fixture
def topic(ask: Asker) -> str:
    """Records at -5 s, -1 s and -3 s in one batch, then one at -2 s."""
    name = ask.new_topic(partitions=2)
    produce(ask, name, [NOW - 5000, NOW - 1000, NOW - 3000])
    produce(ask, name, [NOW - 2000])
    return name
