"""Partitions as their leader has them, for records that come from another log: dead letters, and what is put back.

In a cluster, what is written here and what is written there cannot be one step: a broker may end in between, and the next one
sends the record again. So each record leaves a mark, written together with it, until its sender has taken note in its own
log that it was sent.

| state's name | value |
| --- | --- |
| `l/m`, 16 bytes that stand for the sender, the record's offset there | when it was written |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Final

from kompat.clock import Clock
from kompat.errors import DamagedData, ErrorCode, KafkaError, StorageError
from kompat.log.commit import all_of
from kompat.log.intake import StateWrite
from kompat.log.packing import batch_limit, packed
from kompat.log.partition import Origin, Partition
from kompat.log.validation import codec_of
from kompat.protocol.records import Compression, Record, build_batch
from kompat.types import LogId, Millis, Offset

MARK: Final = b"l/m"
AFTER_MARKS: Final = b"l/n"
SENDER_SIZE: Final = 16
KEPT_MS: Final = 3_600_000  # marks of records whose sender never came to the end
PRUNED_AT_ONCE: Final = 64
_NO_LIMIT: Final = 2**62
_NUMBER = Struct(">q")


# States that go with records, when their partition is about to be given them.
Along = Callable[[Partition, Sequence[Record]], Sequence[StateWrite]]


def _nothing(_: Partition, __: Sequence[Record]) -> Sequence[StateWrite]:
    return ()


class Letterboxes:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: dict[LogId, asyncio.Lock] = {}

    async def put(
        self, box: Partition, sender: bytes, letters: Mapping[int, Record], along: Along = _nothing
    ) -> dict[int, Offset]:
        """Write records of a sender, by their offsets there: where those lie that were not there yet.

        Raises KafkaError; then it is to be asked again, perhaps of another leader.
        """
        async with self._turns.setdefault(box.log_id, asyncio.Lock()):
            if not box.is_led:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            now = self._clock.now()
            known = _marks(box, MARK + sender, MARK + sender + b"\xff" * _NUMBER.size, _NO_LIMIT)
            due = [offset for offset in letters if _name(sender, offset) not in known]
            if not due:
                return {}
            places: dict[int, Offset] = {}
            written = []
            for part in packed(due, letters.__getitem__, batch_limit(box.config)):
                records = [_at(letters[offset], place) for place, offset in enumerate(part)]
                writes: list[StateWrite] = [(_name(sender, offset), _NUMBER.pack(now)) for offset in part]
                writes += [*_old(box, now), *along(box, records)]
                batch = build_batch(records, compression=codec_of(box.config, producers=Compression.NONE))
                appended = box.append(memoryview(batch), origin=Origin.INTERNAL, writes=writes)
                written.append(appended.pending)
                places |= {offset: Offset(appended.base_offset + place) for place, offset in enumerate(part)}
            await all_of(written).wait()
            return places

    async def forget(self, box: Partition, sender: bytes, offsets: Sequence[int]) -> None:
        """These will not be sent again."""
        await box.write_states([(_name(sender, offset), None) for offset in offsets]).wait()


def _at(record: Record, place: int) -> Record:
    return Record(place, record.timestamp, record.key, record.value, record.headers)


def _name(sender: bytes, offset: int) -> bytes:
    return MARK + sender + _NUMBER.pack(offset)


def _old(box: Partition, now: Millis) -> list[StateWrite]:
    """Those that nobody will take away any more, some of them."""
    found = _marks(box, MARK, AFTER_MARKS, PRUNED_AT_ONCE)
    return [(name, None) for name, written in found.items() if _NUMBER.unpack(written)[0] < now - KEPT_MS]


def _marks(box: Partition, start: bytes, end: bytes, limit: int) -> dict[bytes, bytes]:
    try:
        return dict(box.store.state_range(start, end, limit, _NO_LIMIT))
    except (StorageError, DamagedData) as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
