"""A share partition's machine, as Kafka has it and as queues have it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat.share.machine.acquisition import AcquisitionState
from kompat.share.machine.messages import AckBatch, AckType, AcquireMode, Found, RecordState, Want
from kompat.share.machine.settings import DEFAULT_QUEUE_BACKOFF_MS, ShareSettings
from kompat.share.receipts import member_of
from kompat.types import Millis, Offset

NOW = Millis(1_000)
MEMBER = "a-share-consumer"
RECEIPT = member_of(bytes(8))
QUEUE = ShareSettings(has_receipt_dead_letters=True)


def batches(*sizes: int) -> Found:
    """A log of batches, which nobody has had anything of."""
    firsts = [sum(sizes[:place]) for place in range(len(sizes))]
    end = sum(sizes)
    return Found(Offset(0), Offset(end), firsts, [*(first - 1 for first in firsts[1:]), end - 1], [])


def deliver(partition: AcquisitionState, member: str, settings: ShareSettings, now: int = NOW) -> None:
    assert partition.acquire(member, batches(1), Want(max_records=1, batch_size=1), settings, Millis(now)).count == 1


def acknowledge(partition: AcquisitionState, member: str, kind: AckType, settings: ShareSettings) -> list[object]:
    return list(partition.acknowledge(member, [AckBatch(0, 0, [kind])], settings, NOW).dead)


def test_a_record_that_a_share_consumer_releases_comes_again_at_once() -> None:
    partition = AcquisitionState(Offset(0))
    for _ in range(QUEUE.delivery_limit - 1):
        deliver(partition, MEMBER, QUEUE)
        acknowledge(partition, MEMBER, AckType.RELEASE, QUEUE)

    deliver(partition, MEMBER, QUEUE)


def test_a_record_that_is_released_by_receipt_waits_longer_each_time() -> None:
    partition = AcquisitionState(Offset(0))
    deliver(partition, RECEIPT, QUEUE)
    acknowledge(partition, RECEIPT, AckType.RELEASE, QUEUE)
    assert partition.next_deadline() == NOW + DEFAULT_QUEUE_BACKOFF_MS

    partition.tick(QUEUE, Millis(NOW + DEFAULT_QUEUE_BACKOFF_MS))
    deliver(partition, RECEIPT, QUEUE)
    acknowledge(partition, RECEIPT, AckType.RELEASE, QUEUE)
    assert partition.next_deadline() == NOW + 2 * DEFAULT_QUEUE_BACKOFF_MS


@pytest.mark.parametrize(("member", "wanted"), [(MEMBER, 0), (RECEIPT, 1)])
def test_only_queues_have_dead_letters_unless_the_group_asks_for_them(member: str, wanted: int) -> None:
    rejected, timed_out = AcquisitionState(Offset(0)), AcquisitionState(Offset(0))
    for partition in (rejected, timed_out):
        deliver(partition, member, QUEUE)

    assert len(acknowledge(rejected, member, AckType.REJECT, QUEUE)) == wanted
    once = replace(QUEUE, delivery_limit=1)
    assert len(timed_out.tick(once, Millis(NOW + QUEUE.lock_ms)).dead) == wanted
    asked_for = replace(QUEUE, has_dead_letters=True)
    partition = AcquisitionState(Offset(0))
    deliver(partition, member, asked_for)
    assert len(acknowledge(partition, member, AckType.REJECT, asked_for)) == 1


@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=5),
    mode=st.sampled_from(AcquireMode),
    wanted=st.integers(1, 1_000),
    taken=st.lists(st.integers(0, 1_499), max_size=20),
)
def test_no_poll_acquires_more_than_the_group_may_hold(
    sizes: list[int], mode: AcquireMode, wanted: int, taken: list[int]
) -> None:
    settings = ShareSettings(max_locks=100)
    found = batches(*sizes)
    partition = AcquisitionState(Offset(0))
    for offset in taken:
        if partition.in_flight < settings.max_locks and offset < found.end:
            partition.claim("other", offset, 1, settings, NOW)

    acquired = partition.acquire(MEMBER, found, Want(max_records=wanted, batch_size=500, mode=mode), settings, NOW)

    assert partition.in_flight <= settings.max_locks
    held = [run for run in partition.runs() if run.state is RecordState.ACQUIRED and run.member == MEMBER]
    assert sum(run.size for run in held) == acquired.count
