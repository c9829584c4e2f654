"""A machine's state beside its log, so that a restart replays only what came after it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from struct import Struct
from typing import Generic, TypeVar

from kompat.coordination.batches import encoded
from kompat.coordination.machine import Codec, Unreadable, decoded
from kompat.errors import DamagedData, KafkaError
from kompat.log.interceptor import StateWrite
from kompat.log.storage.store import PartitionStore
from kompat.protocol.records import Compression, build_batch, check_batch, iterate, split_batches
from kompat.types import Millis, Offset

R = TypeVar("R")

_NAME = b"machine/snapshot"
_NEXT_OFFSET = Struct(">q")
_RECORDS_PER_BATCH = 4096


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[R]):
    records: Sequence[R]
    next_offset: Offset  # the first one that is not part of it
    size: int  # bytes
    unreadable: Sequence[Exception] = ()  # why records in it cannot be read


class Snapshots(Generic[R]):
    """The snapshot of a partition's machine: the offset that it reaches, then its records in batches."""

    def __init__(self, store: PartitionStore, codec: Codec[R]) -> None:
        self._store = store
        self._codec = codec

    def read(self) -> Snapshot[R] | None:
        stored = self._store.state(_NAME)
        if stored is None:
            return None
        try:
            batches = split_batches(memoryview(stored)[_NEXT_OFFSET.size :])
            for batch in batches:
                check_batch(batch)
            found = [decoded(partial(self._codec.decode, r.key, r.value)) for batch in batches for r in iterate(batch)]
        except KafkaError as error:
            raise DamagedData(f"the snapshot of a log's state is not readable ({error}): restore a backup") from error
        offset = Offset(_NEXT_OFFSET.unpack_from(stored)[0])
        records = [record for record in found if record is not None and not isinstance(record, Unreadable)]
        unreadable = [record.error for record in found if isinstance(record, Unreadable)]
        return Snapshot(records, offset, len(stored), unreadable)

    def encode(self, records: Iterable[R], next_offset: Offset, now: Millis) -> StateWrite:
        """A new snapshot, which replaces the old one."""
        value = bytearray(_NEXT_OFFSET.pack(next_offset))
        rest = iter(records)
        while part := list(islice(rest, _RECORDS_PER_BATCH)):
            value += build_batch(encoded(part, self._codec, now), compression=Compression.ZSTD)
        return _NAME, bytes(value)
