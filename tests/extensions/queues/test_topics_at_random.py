"""A queue topic, its consumers and a broker that dies, at random: every record is accepted, a dead letter, or comes again."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.log.validation import InvalidRecordsError
from kompat.protocol.records import Record
from tests.extensions.queues.support import House, Reader, ack_id, delivery_count

pytestmark = pytest.mark.slow

LOCK_MS = 80
RECORDS = 30
STEPS = 120
KINDS = ("accept", "accept", "accept", "release", "reject", "renew")


@dataclass
class Story:
    """What is known of the records, from outside."""

    accepted: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    numbers: set[tuple[str, int]] = field(default_factory=set)  # which delivery of which record there was, in one life
    ends: dict[str, list[int]] = field(default_factory=dict)  # where each partition ended when a record was done with
    deliveries: list[Record] = field(default_factory=list)

    def delivered(self, record: Record, partition: int) -> None:
        name = (record.value or b"").decode()
        if name in self.ends:  # what was appended before may be read late
            assert record.offset < self.ends[name][partition], f"{name} was done with, and is delivered again"
        number = name, delivery_count(record)
        assert number not in self.numbers, f"{name} is with two at a time"
        self.numbers.add(number)
        self.deliveries.append(record)

    def said(self, name: str, kind: str, log_ends: list[int]) -> None:
        if kind in ("accept", "reject"):
            (self.accepted if kind == "accept" else self.rejected).add(name)
            self.ends[name] = log_ends


class Walk:
    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.dice = random.Random(seed)
        self.story = Story()
        self.readers = [Reader(house, "work", 0), Reader(house, "work", 1)]

    async def poll(self, seconds: float = 0.005) -> int:
        reader = self.dice.choice(self.readers)
        found = await reader.poll(seconds)
        for record in found:
            self.story.delivered(record, reader.log.index)
        return len(found)

    async def say(self, kind: str, record: Record) -> None:
        name = (record.value or b"").decode()
        is_done = name in self.story.accepted | self.story.rejected
        try:
            await self.house.acknowledge("work", kind, ack_id(record), partition=self.dice.randrange(2))
        except KafkaError as refusal:
            is_loading = refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER  # a client would try again
            if not (is_loading or isinstance(refusal, InvalidRecordsError)):
                raise
            return
        if not is_done:
            self.story.said(name, kind, [reader.log.log_end_offset for reader in self.readers])

    async def crash(self) -> None:
        self.house = await self.house.crash()
        self.story.numbers.clear()
        self.readers = [Reader(self.house, "work", 0), Reader(self.house, "work", 1)]

    async def step(self) -> None:
        dice = self.dice.random()
        if dice < 0.45:
            await self.poll()
        elif dice < 0.85 and self.story.deliveries:
            newest = self.dice.choice(self.story.deliveries[-12:])
            await self.say(self.dice.choice(KINDS), newest)
        elif dice < 0.96:
            await asyncio.sleep(self.dice.choice((0.001, 0.03, 0.1)))
        else:
            await self.crash()

    async def finish(self) -> None:
        """Accept all that still comes."""
        quiet = 0
        while quiet < 4:
            for _ in self.readers:
                quiet = 0 if await self.poll(0.1) else quiet + 1
            for record in self.story.deliveries[-40:]:
                await self.say("accept", record)

    def letters(self) -> list[str]:
        return sorted(self.house.texts("dlq.orders")) if self.house.cluster.topic("dlq.orders") else []


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_no_record_is_lost_or_with_two_at_a_time(seed: int) -> None:
    house = await House().start()
    await house.create("orders")
    await house.create(
        "work", 2, kompat_queue_source="orders", kompat_queue_lock_ms=LOCK_MS, kompat_queue_max_in_flight=4
    )
    await house.configure_group("work", kompat_share_release_backoff_ms=5)
    names = [f"{i:02}" for i in range(RECORDS)]
    await house.send("orders", *names)
    walk = Walk(house, seed)
    try:
        for _ in range(STEPS):
            await walk.step()
        await walk.finish()
        letters = walk.letters()
        assert len(letters) == len(set(letters))
        assert walk.story.rejected <= set(letters)
        assert sorted({*letters, *walk.story.accepted}) == names
        told = await walk.house.queues.statistics("work", "orders")
        assert (told.available, told.in_flight, told.archiving) == (0, 0, 0)
    finally:
        await walk.house.close()
