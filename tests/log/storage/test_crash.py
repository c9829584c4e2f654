"""What was flushed is there after the process was killed at any instant; what was not leaves no trace that disturbs."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kompat.log.storage.rocks import RocksStore
from kompat.types import LogId, Offset, RaftIndex
from tests.log.storage.batches import LOG, a_batch, an_entry
from tests.log.storage.crash_writer import PARTITIONS

pytestmark = pytest.mark.slow

ROUNDS = 8


def test_every_flushed_batch_survives_a_kill(tmp_path: Path) -> None:
    choose = random.Random(5)
    acknowledged = [0] * PARTITIONS
    for round_number in range(ROUNDS):
        told = _write_until_killed(tmp_path, round_number, choose.uniform(0.02, 0.15))
        acknowledged = told or acknowledged
        store = RocksStore(str(tmp_path))
        for number, end in enumerate(acknowledged):
            _check(store, LogId(LOG.topic_id, number), end)
        store.close()
    assert sum(acknowledged) > 0


def _write_until_killed(directory: Path, seed: int, after: float) -> list[int]:
    command = [sys.executable, "-m", "tests.log.storage.crash_writer", str(directory), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:  # noqa: S603
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(after)
        writer.send_signal(signal.SIGKILL)
        lines = [first, *writer.stdout.read().splitlines(keepends=True)]
    whole = [line for line in lines if line.endswith(b"\n")]
    return [int(end) for end in whole[-1].split()]


def _check(store: RocksStore, log: LogId, acknowledged: int) -> None:
    """Dense offsets, every byte as it was written, nothing missing of what was acknowledged."""
    partition = store.open(log)
    entries = list(partition.entries(RaftIndex(0)))
    offset, size = Offset(0), 0
    for index, entry in enumerate(entries, 1):
        assert (entry.index, entry.base_offset) == (index, offset)
        run = partition.read(offset, 0, Offset(1 << 60))
        assert b"".join(run.buffers) == a_batch(offset, entry.size)
        offset = Offset(entry.last_offset + 1)
        size += entry.size
    assert offset >= acknowledged
    assert [batch.base_offset for batch in partition.batches(Offset(0))] == [entry.base_offset for entry in entries]
    assert partition.size() == size


def test_bytes_that_a_crash_left_behind_the_last_batch_do_not_disturb(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path))
    store.open(LOG).append(an_entry(1, 0, size=5000), a_batch(0, 5000), Offset(0))
    store.flush()
    store.close()
    (file,) = (tmp_path / "values").glob("*/*")
    with file.open("ab") as torn:
        torn.write(a_batch(1, 5000)[:3000])

    store = RocksStore(str(tmp_path))
    store.open(LOG).append(an_entry(2, 1, size=5000), a_batch(1, 5000), Offset(0))
    store.flush()

    run = store.open(LOG).read(Offset(0), 1 << 20, Offset(10))
    assert b"".join(run.buffers) == a_batch(0, 5000) + a_batch(1, 5000)
    store.close()
