"""When a Produce is answered: by its acks, and no later than its time-out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError
from kompat.handlers.support.produce_reply import Reply
from kompat.log.partition import Appended, Partition
from kompat.protocol.produce import ProduceRequest, ProduceResponse, TopicData, TopicResponse
from kompat.types import ZERO_UUID, Millis, Offset

if TYPE_CHECKING:
    from kompat.handlers.support.base import Context

TOPIC = TopicData("t", ZERO_UUID, [])


def partition(index: int) -> Partition:
    return cast("Partition", SimpleNamespace(index=index))


def reply(
    acks: int, *promises: tuple[Promise[None], Promise[None]], timeout_ms: int = 20
) -> Promise[ProduceResponse] | ProduceResponse:
    """To a request whose batches have these promises: committed, and written."""
    cluster = SimpleNamespace(member=None, topic=lambda _: None)
    ctx = cast("Context", SimpleNamespace(services=SimpleNamespace(cluster=cluster)))
    made = Reply(ctx, ProduceRequest(None, acks, timeout_ms, []))
    responses = [
        made.started(
            TOPIC,
            partition(index),
            memoryview(b""),
            Appended(Offset(5), Offset(5), Millis(-1), Offset(0), committed, written),
        )
        for index, (committed, written) in enumerate(promises)
    ]
    made.response.responses.append(TopicResponse("t", ZERO_UUID, responses))
    return made.when_committed()


def codes(answer: ProduceResponse | None) -> list[tuple[int, int]]:
    assert answer is not None
    return [(p.error_code, p.base_offset) for p in answer.responses[0].partition_responses]


async def test_acks_1_does_not_wait_for_others() -> None:
    answer = reply(1, (Promise(), Promise.resolved(None)))

    assert isinstance(answer, ProduceResponse)
    assert codes(answer) == [(ErrorCode.NONE, 5)]


async def test_acks_all_waits_for_a_majority() -> None:
    committed = Promise()
    answer = reply(-1, (committed, Promise.resolved(None)), timeout_ms=60_000)
    assert isinstance(answer, Promise)
    assert not answer.is_done
    committed.resolve()

    assert codes(answer.result()) == [(ErrorCode.NONE, 5)]


async def test_what_is_not_committed_in_time_is_told_so_and_what_is_committed_too() -> None:
    late = Promise()
    answer = reply(-1, (Promise.resolved(None), Promise.resolved(None)), (late, Promise.resolved(None)))
    assert isinstance(answer, Promise)

    assert codes(await asyncio.wait_for(answer, 5)) == [(ErrorCode.NONE, 5), (ErrorCode.REQUEST_TIMED_OUT, -1)]
    late.resolve()  # nobody waits for it any more


async def test_a_leader_that_loses_its_lead_says_so() -> None:
    committed = Promise()
    answer = reply(-1, (committed, Promise.resolved(None)))
    assert isinstance(answer, Promise)
    committed.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    assert codes(answer.result()) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


async def test_a_partition_without_other_replicas_waits_for_its_disk_however_long() -> None:
    turn = Promise()
    answer = reply(-1, (turn, turn), timeout_ms=0)
    assert isinstance(answer, Promise)
    await asyncio.sleep(0.01)
    assert not answer.is_done
    turn.resolve()

    assert codes(answer.result()) == [(ErrorCode.NONE, 5)]
