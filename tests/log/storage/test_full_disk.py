"""A full disk refuses writes, keeps serving reads, and takes writes again when there is room."""

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kompat.errors import StorageError
from kompat.log.storage import rocks, valuelog
from kompat.log.storage.rocks import RocksStore
from kompat.types import Offset, RaftIndex
from tests.log.storage.batches import LOG, OTHER, a_batch, an_entry, content, expected, write

MIB = 1 << 20


def _fill(store: RocksStore, size: int) -> int:
    """Write until the disk refuses; returns how many batches it took."""
    for offset in range(1_000_000):
        try:
            write(store, LOG, offset, offset, size)
        except StorageError:
            return offset
    raise AssertionError("the disk is never full")


def _write_soon(store: RocksStore, offset: int, size: int) -> None:
    for _ in range(100):
        try:
            write(store, LOG, offset, offset, size)
        except StorageError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("still refused")


@pytest.mark.parametrize("size", [1800, 60_000], ids=["in the database", "in the value log"])
def test_a_full_disk_is_survived(small_disk: Path, size: int) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(68 * MIB))
    store = RocksStore(str(small_disk / "data"))
    count = _fill(store, size)
    assert count > 10

    with pytest.raises(StorageError):
        write(store, LOG, count, count, size)
    assert content(store.open(LOG)) == expected(0, count - 1, size)

    ballast.unlink()
    _write_soon(store, count, size)
    assert content(store.open(LOG)) == expected(0, count, size)
    store.close()
    store = RocksStore(str(small_disk / "data"))
    assert content(store.open(LOG)) == expected(0, count, size)
    assert store.open(LOG).size() == (count + 1) * size
    store.close()


def test_the_reserve_refuses_appends_before_the_disk_is_full(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocks, "CHECK_EVERY", 0.0)
    store = RocksStore(str(data), reserve_bytes=MIB)
    write(store, LOG, 0, 0, 5000)
    free = [0]
    monkeypatch.setattr(store, "_free", lambda: free[0])
    write(store, LOG, 1, 1, 5000)  # finds the disk nearly full

    with pytest.raises(StorageError, match="less than"):
        store.open(LOG).append(an_entry(3, 2), a_batch(2), Offset(0))

    assert not store.has_staged()
    store.open(LOG).drop_before(RaftIndex(2), Offset(1), [])  # what frees space is not refused
    store.flush()
    assert content(store.open(LOG)) == expected(1, 1, 5000)
    free[0] = 2 * MIB
    write(store, LOG, 2, 2, 5000)
    store.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_refused_turn_is_discarded_as_a_whole(store: RocksStore, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    write(store, LOG, 0, 0, 5000)
    (file,) = (Path(store.values.directory)).glob("*/*")
    real = os.pwritev
    calls = []

    def torn(fd: int, buffers: list[bytes], place: int) -> int:
        calls.append(place)
        if len(calls) < 3:  # the first file is written, the second one in part
            return real(fd, buffers if len(calls) == 1 else [bytes(buffers[0])[:100]], place)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "pwritev", torn)
    monkeypatch.setattr(os, "pwrite", lambda *_: torn(0, [], 0))
    store.open(LOG).append(an_entry(2, 1, size=5000), a_batch(1, 5000), Offset(0))
    store.open(OTHER).append(an_entry(1, 0, size=9000), a_batch(0, 9000), Offset(0))
    store.open(OTHER).put_state(b"name", b"value")
    with pytest.raises(StorageError):
        store.flush()
    monkeypatch.undo()

    assert file.stat().st_size == 5000
    assert store.open(OTHER).last_entry() is None
    assert store.open(OTHER).state(b"name") is None
    assert not store.has_staged()
    write(store, LOG, 1, 3, 5000)
    write(store, OTHER, 0, 3, 5000)
    assert content(store.open(LOG)) == content(store.open(OTHER)) == expected(0, 3, 5000)


def test_after_a_sync_that_failed_nothing_more_is_promised_until_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RocksStore(str(tmp_path))
    write(store, LOG, 0, 0, 60_000)
    with monkeypatch.context() as broken:
        broken.setattr(valuelog, "_sync_data", _refuse)
        with pytest.raises(StorageError):
            store.sync()

    with pytest.raises(StorageError, match="restart the broker"):
        store.sync()
    with pytest.raises(StorageError, match="restart the broker"):
        write(store, LOG, 1, 1, 100)
    assert content(store.open(LOG)) == expected(0, 0, 60_000)

    store.close()
    again = RocksStore(str(tmp_path))
    write(again, LOG, 1, 1, 100)
    again.sync()
    again.close()


def _refuse(_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


class _Failed:
    """A database after a write that failed: it is open for reading, and says so whenever it is to sync."""

    def __init__(self, db: Any) -> None:
        self._db = db

    def flush_wal(self, _: bool) -> None:
        raise OSError("IO error: Writer has previous error.")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def test_a_sync_that_only_tells_of_an_earlier_failed_write_does_not_stop_the_store_for_good(
    store: RocksStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rocks, "CHECK_EVERY", 0.0)
    write(store, LOG, 0, 0, 1800)
    store.database.db = _Failed(store.database.db)
    with pytest.raises(StorageError):
        store.sync()
    assert store.is_refusing

    _write_soon(store, 1, 1800)

    store.sync()
    assert not store.is_refusing
    assert content(store.open(LOG)) == expected(0, 1, 1800)


def test_a_store_that_is_stuck_mends_itself_with_the_next_turn_that_finds_room(
    store: RocksStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nobody appends: votes and terms are written, too."""
    write(store, LOG, 0, 0, 100)
    monkeypatch.setattr(rocks, "CHECK_EVERY", 0.0)
    with monkeypatch.context() as full:
        full.setattr(store, "_free", lambda: 0)
        full.setattr(store.database, "write", _no_room)
        with pytest.raises(StorageError):
            write(store, LOG, 1, 1, 100)
        assert store.is_refusing

    store.open(LOG).put_state(b"raft/hard", b"a vote")
    with pytest.raises(StorageError, match="opened anew"):
        store.flush()
    assert store.open(LOG).state(b"raft/hard") is None
    store.open(LOG).put_state(b"raft/hard", b"a vote")
    store.flush()

    assert store.open(LOG).state(b"raft/hard") == b"a vote"


def _no_room(_: object) -> None:
    raise StorageError("no space left on device")
