"""The plain way to write a machine's records: all of a decision in one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

from kompat.coordination.machine import Codec, Unreadable, decoded
from kompat.protocol.records import Record, build_batch, iterate, read_header
from kompat.types import Millis, Offset

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


def encoded(records: Sequence[R], codec: Codec[R], now: Millis) -> list[Record]:
    """Records as a log batch takes them."""
    return [Record(index, now, *codec.encode(record)) for index, record in enumerate(records)]
