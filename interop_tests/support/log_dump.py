"""What a broker has on its disk, entry by entry: to find out what has become of a record or of a transaction.

    python -m interop_tests.support.log_dump DATA_DIRECTORY > dump

The directory is copied first, so it stays as it was. `LOG topic-id partition` is followed by its entries: index, term, kind, offsets, time,
producer id/epoch, sequence; then values, or what a marker or a transaction's state says.
"""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from kompat.errors import DamagedData
from kompat.log.recovery import CONTROL, end_marker
from kompat.log.storage.rocks import RocksStore
from kompat.log.storage.store import Entry, EntryKind, PartitionStore
from kompat.protocol.records import iterate
from kompat.txn import records
from kompat.txn.records import Changed
from kompat.types import Buffer, Offset, RaftIndex

VALUE_BYTES = 24


def at(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%H:%M:%S.%f")[:-3] if millis > 0 else "-"


def entry_line(store: PartitionStore, entry: Entry) -> str:
    where = f"{entry.index} t{entry.term} {entry.kind.name} {entry.base_offset}..{entry.last_offset}"
    who = f"pid={entry.producer_id}/{entry.producer_epoch} seq={entry.base_sequence}"
    return f"  {where} {at(entry.max_timestamp)} {who} {' | '.join(said(store, entry))}"


def said(store: PartitionStore, entry: Entry) -> Iterator[str]:
    run = store.read(entry.base_offset, 1, Offset(entry.last_offset + 1)) if entry.kind is EntryKind.DATA else None
    if run is None or not run.buffers:
        return
    if entry.attributes & CONTROL:
        yield f"MARKER {end_marker(run.buffers[0])}"
        return
    for record in iterate(run.buffers[0]):
        yield transaction(record.key, record.value) or repr(bytes(record.value or b"")[:VALUE_BYTES])


def transaction(key: Buffer | None, value: Buffer | None) -> str | None:
    """What a record of `__transaction_state` says; None: it is none."""
    with contextlib.suppress(DamagedData):
        state = records.decode(bytes(key), bytes(value)) if key is not None and value is not None else None
        if isinstance(state, Changed):
            found = state.transaction
            places = sorted(f"{place.topic}-{place.partition}" for place in found.partitions)
            who = f"{found.transactional_id} pid={found.producer_id}/{found.producer_epoch}"
            return f"{who} {found.state.name} {places} since {at(found.start_ms)}"
    return None


def dump(data: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(data, copy, dirs_exist_ok=True)
        store = RocksStore(copy)
        for log in sorted(store.logs(), key=lambda log: (str(log.topic_id), log.partition)):
            yield f"LOG {log.topic_id} {log.partition}"
            opened = store.open(log)
            for entry in opened.entries(RaftIndex(0)):
                yield entry_line(opened, entry)
        store.close()


if __name__ == "__main__":
    for line in dump(Path(sys.argv[1])):
        print(line)  # noqa: T201 - that is what it is for
