"""Takes records of one log to another, which any broker of the cluster may lead: each once."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from uuid import UUID

from kompat.clock import Clock
from kompat.cluster.asking import Asking
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import headers
from kompat.extensions.headers import HeaderError
from kompat.extensions.intake import USED, PartitionIntake
from kompat.extensions.priority import Ranks
from kompat.extensions.states import Draft
from kompat.log.intake import StateWrite
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.protocol.records import Record, build_batch, iterate
from kompat.share.letterboxes import SENDER_SIZE, Letterboxes
from kompat.types import LogId, Millis, Offset


class Courier:
    def __init__(self, asking: Asking, logs: Logs, clock: Clock) -> None:
        self._asking = asking
        self._logs = logs
        self._clock = clock
        self._boxes = Letterboxes(clock)
        asking.serve("courier-put", self._on_put)
        asking.serve("courier-done", self._on_done)

    # -- sending ---------------------------------------------------------------------------------------------------
    async def send(
        self, box: LogId, sender: bytes, records: Mapping[int, Record], *, ranked: bool = False
    ) -> dict[int, Offset]:
        """Have records of a sender appended, by their offsets there: where those are that were not there yet.

        Always to the same partition: there it is known which were sent before. `ranked`: their priorities and times to live
        count. Raises KafkaError.
        """
        renumbered = [
            Record(place, each.timestamp, each.key, each.value, each.headers)
            for place, each in enumerate(records.values())
        ]
        batch = b64encode(build_batch(renumbered)).decode()
        told = [box.topic_id.hex, box.partition, sender.hex(), list(records), batch, ranked]
        return {offset: Offset(place) for offset, place in await self._asking.ask(box, "courier-put", told)}

    async def finished(self, box: LogId, sender: bytes, offsets: Sequence[int]) -> None:
        """They will not be sent again. Should nobody be told, the marks go with time."""
        with suppress(KafkaError):
            await self._asking.ask(box, "courier-done", [box.topic_id.hex, box.partition, sender.hex(), list(offsets)])

    # -- receiving -------------------------------------------------------------------------------------------------
    async def _on_put(self, told: Sequence[Any]) -> list[tuple[int, int]]:
        topic_id, partition, sender, offsets, batch, ranked = told
        records = dict(zip(offsets, iterate(memoryview(b64decode(batch))), strict=True))
        box = self._log(topic_id, partition)
        if ranked:
            written = await self._boxes.put(box, bytes.fromhex(sender), records, self._ranks)
        else:
            written = await self._boxes.put(box, bytes.fromhex(sender), records)
        return list(written.items())

    async def _on_done(self, told: Sequence[Any]) -> None:
        topic_id, partition, sender, offsets = told
        await self._boxes.forget(self._log(topic_id, partition), bytes.fromhex(sender), offsets)

    def _log(self, topic_id: str, partition: int) -> Partition:
        log = self._logs.find_by_id(UUID(topic_id), partition)
        if log is None or not log.is_led:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return log

    def _ranks(self, target: Partition, records: Sequence[Record]) -> Sequence[StateWrite]:
        return ranks_of(target, records, self._clock.now())


def sender_of(text: str) -> bytes:
    """What stands for a sender."""
    return blake2b(text.encode(), digest_size=SENDER_SIZE).digest()


def ranks_of(target: Partition, records: Sequence[Record], now: Millis) -> Sequence[StateWrite]:
    """What is known of priorities and times to live is known of records that go back, too: those that are appended next."""
    intake = target.intake
    if not isinstance(intake, PartitionIntake) or intake.lanes.is_on or not target.config.kompat_extensions_enable:
        return ()
    draft, ranks = Draft(intake.view), Ranks()
    for offset, record in enumerate(records, target.log_end_offset):
        with suppress(HeaderError):  # it came while nobody looked at headers
            asked = headers.parse(record.headers)
            if asked is not None:
                ranks.add(Offset(offset), asked, now)
    ranks.write(draft, now)
    writes = draft.writes()
    return [*writes, (USED, b"")] if writes else ()
