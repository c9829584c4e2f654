"""The scrubber looks for rot in what nobody reads: every stored batch is read now and then, slowly, and its checksum compared.

It reads as everybody does. So what is damaged is counted, told in the broker's log and taken from another replica, where there is one. Partitions
come in another order in every round, so that a broker that is often started anew gets to all of them, too.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kompat.errors import DamagedOffsets, KafkaError
from kompat.types import Offset

if TYPE_CHECKING:
    from kompat.log.partition import Partition

logger = logging.getLogger(__name__)

READ_BYTES: Final = 1 << 20
FIRST_SECONDS: Final = 600.0  # after the start, when there is other work to do


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubSettings:
    """Each is named in its comment."""

    interval_ms: int = 86_400_000  # kompat.scrub.interval.ms; 0: never
    bytes_per_second: int = 4 << 20  # kompat.scrub.bytes.per.second


class Scrubber:
    def __init__(self, settings: ScrubSettings, partitions: Callable[[], Sequence[Partition]]) -> None:
        self.settings = settings
        self._partitions = partitions
        self.bytes = 0  # read and compared so far

    async def run(self) -> None:
        """Round after round, until it is cancelled."""
        await asyncio.sleep(min(FIRST_SECONDS, self.settings.interval_ms / 1000 or FIRST_SECONDS))
        while True:
            if self.settings.interval_ms:
                await self.scrub_all()
            await asyncio.sleep(self.settings.interval_ms / 1000 or FIRST_SECONDS)

    async def scrub_all(self) -> None:
        found = list(self._partitions())
        random.shuffle(found)
        before = self.bytes
        for each in found:
            await self._scrub(each)
        facts = {"partitions": len(found), "bytes": self.bytes - before}
        logger.info("all stored batches were compared with their checksums", extra=facts)

    async def _scrub(self, log: Partition) -> None:
        offset = log.log_start_offset
        while offset < log.high_watermark and not log.is_dropped:
            read = partial(log.store.read, offset, READ_BYTES, log.high_watermark)
            try:
                run = await log.read_mended(read)
            except DamagedOffsets as lost:
                offset = Offset(lost.last + 1)
                continue
            except KafkaError as error:  # the disk, or a replica that cannot be asked now: the next round looks again
                logger.warning("%s could not be read to its end, which began at offset %d: %s", log, offset, error)
                return
            if run.next_offset <= offset:
                return
            offset = run.next_offset
            size = sum(map(len, run.buffers))
            self.bytes += size
            await asyncio.sleep(size / self.settings.bytes_per_second)
