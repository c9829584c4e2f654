"""Expressions of subscriptions are looked up in slices, before the machine needs them."""

import asyncio
from random import Random

from kompat.groups.expressions import look_ahead
from kompat.groups.machine.messages import ClientInfo, ConsumerHeartbeatRequest
from kompat.groups.machine.regex import compiled
from kompat.groups.machine.topics import TopicInfo, TopicTable
from kompat.types import ZERO_UUID

SLOW = r"([\w.]{0,100}a){8}"


def test_the_loop_has_turns_while_an_expression_is_held_against_many_topics() -> None:
    letters = Random(1)
    names = ["".join(letters.choices("ab", k=249)) for _ in range(100)]
    topics = TopicTable([TopicInfo(name=name, topic_id=ZERO_UUID, partitions=1) for name in names])
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> None:
        beside = asyncio.create_task(others())
        await asyncio.sleep(0)
        await look_ahead(_heartbeat(SLOW), topics)
        beside.cancel()

    asyncio.run(run())

    regex = compiled(SLOW)
    assert regex is not None
    assert regex.unseen(names) == []
    assert turns > 5


def _heartbeat(regex: str) -> ConsumerHeartbeatRequest:
    return ConsumerHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        subscribed_topic_regex=regex,
        client=ClientInfo(client_id="c", client_host="/h"),
    )
