"""DeleteRecords of a partition."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.log.partition import ALL_COMMITTED
from tests.log.support import Log, delete


def test_deleting_records_moves_the_start_and_stays_after_a_kill() -> None:
    log = Log()
    log.append(b"a", b"b", b"c")
    assert delete(log, 2) == 2
    assert log.kill().log_start_offset == 2
    assert log.values(2) == [b"c"]


def test_deleting_up_to_the_high_watermark_empties_the_log() -> None:
    log = Log()
    log.append(b"a", b"b")
    assert delete(log, ALL_COMMITTED) == 2
    assert delete(log, 1) == 2  # the start never goes back
    assert log.append(b"c").base_offset == 2


@pytest.mark.parametrize("offset", [-2, 3])
def test_deleting_beyond_the_log_is_refused(offset: int) -> None:
    log = Log()
    log.append(b"a", b"b")
    with pytest.raises(KafkaError) as raised:
        delete(log, offset)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleting_from_a_compacted_topic_is_against_its_policy() -> None:
    log = Log(compact=True, delete=False)
    log.append(b"a")
    with pytest.raises(KafkaError) as raised:
        delete(log, 1)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION
