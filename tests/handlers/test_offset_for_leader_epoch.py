"""OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.topic_with_records import topic

__all__ = ["topic"]


def epoch_end(ask: Asker, topic: str, epoch: int, current: int = -1, version: int = 4) -> tuple[int, int, int]:
    asked = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}]
    [answer] = ask("OffsetForLeaderEpoch", version, topics=[{"topic": topic, "partitions": asked}]).topics
    [partition] = answer.partitions
    return partition.error_code, partition.leader_epoch, partition.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_current_epoch_ends_with_the_log(ask: Asker, topic: str, version: int) -> None:
    assert epoch_end(ask, topic, 0, version=version) == (ErrorCode.NONE, 0, 4)


@pytest.mark.parametrize("epoch", [-1, 5])
def test_an_unknown_epoch_has_no_end(ask: Asker, topic: str, epoch: int) -> None:
    assert epoch_end(ask, topic, epoch) == (ErrorCode.NONE, -1, -1)


def test_an_epoch_is_asked_of_its_leader(ask: Asker, topic: str) -> None:
    assert epoch_end(ask, topic, 0, current=3) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert epoch_end(ask, "nope", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
