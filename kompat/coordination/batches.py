"""The plain way to write a machine's records: all of a decision in one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

from kompat.coordination.machine import Codec, Unreadable, decoded
from kompat.protocol.records import Record, build_batch, iterate, read_header
from kompat.types import Millis, Offset

MOST_REMEMBERED = 8
_CRC = 17  # its position; the log rewrites the fields before it

R = TypeVar("R")


class PlainBatches(Generic[R]):
    def __init__(self, codec: Codec[R]) -> None:
        self._codec = codec

    def encode(self, records: Sequence[R], now: Millis) -> list[bytearray]:
        return [build_batch(encoded(records, self._codec, now))]

    def decode(self, batch: memoryview) -> Iterator[tuple[Offset, R | Unreadable]]:
        if read_header(batch).is_control:
            return
        for each in iterate(batch):
            record = decoded(partial(self._codec.decode, each.key, each.value))
            if record is not None:
                yield Offset(each.offset), record


class RememberedBatches(PlainBatches[R]):
    """Batches that this broker has just written need not be decoded: a topic of 10,000 partitions would take a while."""

    def __init__(self, codec: Codec[R]) -> None:
        super().__init__(codec)
        self._written: dict[bytes, tuple[bytearray, Sequence[R]]] = {}  # by their checksums

    def encode(self, records: Sequence[R], now: Millis) -> list[bytearray]:
        [batch] = super().encode(records, now)
        self._written[_checksum(batch)] = batch, records
        if len(self._written) > MOST_REMEMBERED:
            del self._written[next(iter(self._written))]
        return [batch]

    def decode(self, batch: memoryview) -> Iterator[tuple[Offset, R | Unreadable]]:
        written, records = self._written.pop(_checksum(batch), (b"", ()))
        if memoryview(written)[_CRC:] != batch[_CRC:]:
            return super().decode(batch)
        first = read_header(batch).base_offset
        return ((Offset(first + index), record) for index, record in enumerate(records))


def _checksum(batch: bytearray | memoryview) -> bytes:
    return bytes(batch[_CRC : _CRC + 4])


def encoded(records: Sequence[R], codec: Codec[R], now: Millis) -> list[Record]:
    """Records as a log batch takes them."""
    return [Record(index, now, *codec.encode(record)) for index, record in enumerate(records)]
