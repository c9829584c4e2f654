"""Offsets of transactions through compaction and restarts: what is pending stays so, and no committed one is lost."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kompat.config.topic import TopicConfig
from kompat.errors import ErrorCode
from kompat.log.cleaner import Cleaner, CleanerSettings
from kompat.txn.machine import Producer
from kompat.types import Millis
from tests.txn.crashing import HOME, ID, MortalDisk, World, patiently

LIVES = 1_000_000
COMPACTED = TopicConfig(compact=True, delete=False, segment_bytes=500, min_cleanable_dirty_ratio=0.0)
STEPS = st.lists(
    st.sampled_from(["add", "commit", "abort", "plain", "others", "clean", "clean later", "restart"]), max_size=40
)


class Story:
    def __init__(self, version: int) -> None:
        self.version = version
        self.disk = MortalDisk(LIVES, keeps_last=True)
        self.world = World(self.disk, COMPACTED)
        self.producer = Producer(-1, -1)
        self.number = 0
        self.expected = -1
        self.pending: int | None = None

    async def step(self, step: str) -> None:
        self.number += 1
        if step == "add":
            partitions = [HOME]
            await patiently(
                lambda: self.world.transactions.add_partitions(
                    ID, self.producer, partitions, client_version=self.version
                )
            )
            await self.world.commit_offset(self.producer, self.number)
            self.pending = self.number
        elif step in ("commit", "abort") and self.pending is not None:
            await self._end(commit=step == "commit")
        elif step == "plain" and self.pending is None:
            await self.world.commit_offset(None, self.number)
            self.expected = self.number
        elif step == "others":
            for number in range(5):
                await self.world.commit_offset(None, self.number, f"group-{number}")
        elif step.startswith("clean"):
            await self._clean(2 * COMPACTED.delete_retention_ms if step == "clean later" else 0)
        elif step == "restart":
            await self.world.stop()
            self.world = World(self.disk, COMPACTED)

    async def _end(self, *, commit: bool) -> None:
        self.producer = await self.world.transactions.end(ID, self.producer, commit=commit, client_version=self.version)
        if commit and self.pending is not None:
            self.expected = self.pending
        self.pending = None
        while (await self.world.transactions.describe(ID)).partitions:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def _clean(self, later_ms: int) -> None:
        now = self.world.node.clock.now() + later_ms
        await Cleaner(CleanerSettings()).clean(self.world.logs[HOME], Millis(now))

    async def check(self) -> None:
        offset = await self.world.offset()
        if self.pending is not None:
            assert offset.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
        else:
            assert (offset.error, offset.offset) == (ErrorCode.NONE, self.expected)


async def tell(steps: list[str], version: int) -> None:
    story = Story(version)
    story.producer = await story.world.init()
    for step in steps:
        await story.step(step)
        await story.check()
    await story.world.stop()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from([0, 2]))
def test_compaction_takes_nothing_from_open_or_ended_transactions(steps: list[str], version: int) -> None:
    asyncio.run(tell(steps, version))
