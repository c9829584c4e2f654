"""AddOffsetsToTxn: a group's offsets as part of a producer's transaction."""

from __future__ import annotations

from typing import Any

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker
from tests.handlers.members import new_group
from tests.handlers.transactions import Transactional, a_producer


@pytest.mark.parametrize("version", range(5))
def test_the_groups_home_becomes_part_of_the_transaction(prompt: Asker, version: int) -> None:
    producer = a_producer(prompt)

    assert producer.add_group(new_group(), version) is ErrorCode.NONE
    [added] = producer.describe().topics
    assert (added.topic, len(added.partitions)) == ("__consumer_offsets", 1)


@pytest.mark.parametrize("version", range(5))
def test_only_who_holds_the_transactional_id_adds_a_group(prompt: Asker, version: int) -> None:
    held = a_producer(prompt)

    def add(**other: Any) -> ErrorCode:
        fields = {"name": held.name, "id": held.id, "epoch": held.epoch, **other}
        return Transactional(prompt, **fields).add_group("group", version)

    assert add(name="nobody") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert add(name="") is ErrorCode.INVALID_REQUEST
    assert add(id=held.id + 10**6) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert add(epoch=9) is (ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH)
