"""Space is given back, files are few, and whoever reads meanwhile is not disturbed."""

import os
import random
import shutil
import threading
import time
from pathlib import Path
from uuid import UUID

import pytest

from kompat.errors import StorageError
from kompat.log.storage import garbage, rocks_partition
from kompat.log.storage.rocks import RocksStore
from kompat.log.storage.store import Rewrite
from kompat.log.storage.valuelog import ValueLog
from kompat.types import LogId, Millis, Offset, RaftIndex
from tests.log.storage.batches import LOG, OTHER, a_batch, an_entry, content, expected, write


def _bytes(directory: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in directory.glob(pattern))


def _rewritten(offset: int, size: int) -> Rewrite:
    return Rewrite(Offset(offset), Offset(offset), Millis(1), a_batch(offset, size, seed=1))


def test_dropping_a_log_gives_its_space_back(store: RocksStore, data: Path) -> None:
    for number in range(12):  # 24 MiB in the database, 12 MiB in the value log
        partition = store.open(LOG)
        for offset in range(number * 2000, number * 2000 + 1000):
            partition.append(an_entry(offset, offset, 1, 2000), a_batch(offset, 2000), Offset(0))
        partition.append(an_entry(number * 2000 + 1000, number * 2000 + 1000, 1, 1 << 20), bytes(1 << 20), Offset(0))
        store.flush()
    write(store, OTHER, 0, 9, 3000)
    store.database.flush()
    assert _bytes(data, "db/*.sst") > 20 << 20

    store.drop(LOG)
    store.flush()
    store.wait_for_garbage()

    assert _bytes(data, "db/*.sst") < 1 << 20
    assert [path.name for path in (data / "values").iterdir()] == [str(OTHER)]
    assert list(store.logs()) == [OTHER]
    assert content(store.open(OTHER)) == expected(0, 9, 3000)


def test_a_topic_is_compacted_in_one_go() -> None:
    def freed(topic: int, partition: int, start: int, end: int) -> garbage.Freed:
        log = LogId(UUID(int=topic), partition).key
        return garbage.Freed(1, 10, (log + bytes([start]), log + bytes([end])), (log, log + b"z"))

    merged = garbage.merged(
        [freed(2, 0, 1, 9), freed(1, 1, 1, 9), freed(1, 0, 5, 9), freed(1, 0, 1, 5), freed(1, 4, 1, 9)]
    )

    assert [one.size for one in merged] == [30, 10, 10]
    assert merged[0].batches == (LogId(UUID(int=1), 0).key + b"\x01", LogId(UUID(int=1), 1).key + b"\x09")


def test_dropping_segments_removes_their_files(store: RocksStore, data: Path) -> None:
    for segment in (0, 10, 20):
        write(store, LOG, segment, segment + 9, 5000, segment)

    store.open(LOG).drop_before(RaftIndex(11), Offset(10), [Offset(0)])
    store.flush()
    store.wait_for_garbage()

    assert _bytes(data, "values/*/*") == 20 * 5000
    assert content(store.open(LOG)) == expected(10, 29, 5000)


def test_files_of_segments_that_the_caller_has_merged_go_as_well(store: RocksStore, data: Path) -> None:
    for segment in (0, 10, 20):
        write(store, LOG, segment, segment + 9, 5000, segment)

    store.open(LOG).drop_before(RaftIndex(26), Offset(25), [])
    store.flush()
    store.wait_for_garbage()

    assert [path.name[:20] for path in (data / "values").glob("*/*")] == [f"{20:020d}"]
    assert content(store.open(LOG)) == expected(25, 29, 5000)


def test_a_file_that_a_crash_left_for_a_later_segment_misleads_nobody(data: Path) -> None:
    store = RocksStore(str(data))
    write(store, LOG, 0, 9, 5000)
    store.close()
    (directory,) = (data / "values").iterdir()
    (directory / f"{12:020d}.7").write_bytes(b"never pointed to")
    again = RocksStore(str(data))
    write(again, LOG, 10, 29, 5000)  # the partition did not roll at 12 this time

    again.open(LOG).drop_before(RaftIndex(21), Offset(20), [])
    again.flush()
    again.wait_for_garbage()

    assert content(again.open(LOG)) == expected(20, 29, 5000)
    assert [path.name[:20] for path in directory.iterdir()] == [f"{0:020d}"]
    again.close()


def test_segments_do_not_fall_even_if_the_caller_forgets_that_it_rolled(data: Path) -> None:
    store = RocksStore(str(data))
    write(store, LOG, 0, 9, 5000)
    write(store, LOG, 10, 19, 5000, 10)
    store.close()
    store = RocksStore(str(data))
    write(store, LOG, 20, 29, 5000, 0)
    write(store, LOG, 30, 39, 5000, 30)

    store.open(LOG).drop_before(RaftIndex(31), Offset(30), [Offset(0)])
    store.flush()
    store.wait_for_garbage()

    assert content(store.open(LOG)) == expected(30, 39, 5000)
    assert _bytes(data, "values/*/*") == 10 * 5000
    store.close()


def test_a_file_is_kept_while_the_first_batch_of_the_log_lies_in_it(store: RocksStore, data: Path) -> None:
    write(store, LOG, 0, 9, 5000)

    store.open(LOG).drop_before(RaftIndex(10), Offset(9), [Offset(0)])
    store.flush()
    store.wait_for_garbage()

    assert content(store.open(LOG)) == expected(9, 9, 5000)


def test_a_cleaned_file_goes_with_its_last_batch(store: RocksStore, data: Path) -> None:
    write(store, LOG, 0, 9, 5000)
    write(store, LOG, 10, 11, 5000, 10)
    partition = store.open(LOG)

    partition.rewrite([_rewritten(offset, 3000) for offset in range(5)], Offset(0))
    store.flush()
    store.wait_for_garbage()
    assert _bytes(data, "values/*/*") == 12 * 5000 + 5 * 3000
    partition.rewrite([_rewritten(offset, 3000) for offset in range(5, 9)], Offset(0))
    partition.rewrite([Rewrite(Offset(9), Offset(9), Millis(1), None)], Offset(0))
    store.flush()
    store.wait_for_garbage()

    assert _bytes(data, "values/*/*") == 9 * 3000 + 2 * 5000
    cleaned = b"".join(a_batch(offset, 3000, seed=1) for offset in range(9))
    assert content(partition) == cleaned + expected(10, 11, 5000)
    assert partition.size() == 9 * 3000 + 2 * 5000


def test_what_replaces_a_file_is_on_the_disk_before_the_file_goes(
    store: RocksStore, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, LOG, 0, 9, 5000)
    write(store, LOG, 10, 11, 5000, 10)
    old = set(data.glob("values/*/*"))
    events: list[tuple[str, str]] = []
    force, unlink = ValueLog.sync_file, os.unlink

    def forced(values: ValueLog, path: str) -> None:
        force(values, path)
        events.append(("forced", path))

    def unlinked(path: str) -> None:
        events.append(("unlinked", path))
        unlink(path)

    monkeypatch.setattr(ValueLog, "sync_file", forced)
    monkeypatch.setattr(os, "unlink", unlinked)
    store.open(LOG).rewrite([_rewritten(offset, 3000) for offset in range(10)], Offset(0))
    store.flush()
    store.wait_for_garbage()

    (new,) = set(data.glob("values/*/*")) - old
    (gone,) = old - set(data.glob("values/*/*"))
    assert events.index(("forced", str(new))) < events.index(("unlinked", str(gone)))


def test_a_killed_broker_leaves_no_garbage_for_ever(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RocksStore(str(data))
    write(store, LOG, 0, 9, 5000)
    write(store, LOG, 10, 19, 5000, 10)
    write(store, OTHER, 0, 9, 5000)
    monkeypatch.setattr(garbage.Collector, "submit", lambda *_: None)  # killed before it comes to that
    store.open(LOG).drop_before(RaftIndex(11), Offset(10), [Offset(0)])
    store.open(LOG).rewrite([_rewritten(offset, 100) for offset in range(10, 20)], Offset(10))
    store.drop(OTHER)
    store.flush()
    shutil.copytree(data, tmp_path / "killed")
    assert _bytes(tmp_path / "killed", "values/*/*") == 30 * 5000

    again = RocksStore(str(tmp_path / "killed"))

    assert _bytes(tmp_path / "killed", "values/*/*") == 0
    assert list(again.logs()) == [LOG]
    assert again.open(LOG).size() == 10 * 100
    again.close()
    store.close()


def test_open_files_are_bounded(store: RocksStore) -> None:
    logs = [LogId(LOG.topic_id, number) for number in range(50)]
    before = len(os.listdir("/proc/self/fd"))
    for offset in range(2):
        for log in logs:
            store.open(log).append(an_entry(offset, offset, 1, 5000), a_batch(offset, 5000), Offset(0))
        store.flush()

    for log in logs:
        assert content(store.open(log)) == expected(0, 1, 5000)
    assert len(store.values.files) == 8
    assert len(os.listdir("/proc/self/fd")) <= before + 8


def test_a_file_that_is_being_read_outlives_its_removal(store: RocksStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, LOG, 0, 9, 5000)
    real = os.pread
    removed = []

    def pread(fd: int, size: int, place: int) -> bytes:
        if not removed:
            removed.append(True)
            store.drop(LOG)
            store.flush()
            store.wait_for_garbage()
        return real(fd, size, place)

    monkeypatch.setattr(os, "pread", pread)
    assert content(store.open(LOG)) == expected(0, 9, 5000)
    assert content(store.open(LOG)) == b""


def test_a_read_looks_again_where_a_batch_has_moved(store: RocksStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, LOG, 0, 4, 5000)
    write(store, LOG, 5, 5, 5000, 5)
    partition = store.open(LOG)
    real = ValueLog.read
    moved = []

    def read(values: ValueLog, stretch: object) -> bytes:
        if not moved:
            moved.append(True)
            partition.rewrite([_rewritten(offset, 3000) for offset in range(5)], Offset(0))
            store.flush()
            store.wait_for_garbage()
        return real(values, stretch)  # type: ignore[arg-type]

    monkeypatch.setattr(ValueLog, "read", read)
    assert content(partition) == b"".join(a_batch(offset, 3000, seed=1) for offset in range(5)) + expected(5, 5, 5000)


class _Restless:
    """Appends, truncates, cleans and drops, all the time."""

    def __init__(self, store: RocksStore) -> None:
        self._store = store
        self._choose = random.Random(1)
        self.partition = store.open(LOG)
        self.end = 0

    def step(self) -> None:
        for offset in range(self.end, self.end + 20):
            size = self._choose.choice([200, 5000])
            self.partition.append(an_entry(offset, offset, 1, size), a_batch(offset, size), Offset(offset // 20 * 20))
        self.end += 20
        self._store.flush()
        self._choose.choice([self._truncate, self._clean, self._clean, self._drop])()
        self._store.flush()

    def _truncate(self) -> None:
        self.end = self._choose.randrange(self.end)
        self.partition.truncate_from(RaftIndex(self.end), Offset(self.end))

    def _clean(self) -> None:
        changes = [_rewritten(offset, self._choose.choice([100, 4000])) for offset in range(0, self.end - 20, 2)]
        self.partition.rewrite(changes, Offset(0))

    def _drop(self) -> None:
        if self.end > 200:
            self._store.drop(LOG)
            self._store.flush()
            self.partition, self.end = self._store.open(LOG), 0


def test_readers_see_whole_batches_whatever_goes_on(store: RocksStore) -> None:
    writer = _Restless(store)
    problems: list[object] = []
    is_over = threading.Event()

    def read(seed: int) -> None:
        choose = random.Random(seed)
        while not is_over.is_set():
            try:
                run = writer.partition.read(Offset(choose.randrange(200)), 20_000, Offset(1 << 40))
                problems.extend(_problems(b"".join(run.buffers)))
            except StorageError as error:
                problems.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        writer.step()
    is_over.set()
    for thread in threads:
        thread.join()
    assert problems == []


def _problems(run: bytes) -> list[str]:
    place, previous = 0, -1
    while place < len(run):
        offset, size = (
            int.from_bytes(run[place : place + 8], "big"),
            int.from_bytes(run[place + 8 : place + 12], "big") + 12,
        )
        if (
            run[place : place + size] not in (a_batch(offset, size), a_batch(offset, size, seed=1))
            or offset <= previous
        ):
            return [f"batch {offset} of {size} bytes after {previous}"]
        place, previous = place + size, offset
    return []


def test_a_copy_is_whole_and_goes_its_own_way(store: RocksStore, tmp_path: Path) -> None:
    for segment in (0, 10):
        write(store, LOG, segment, segment + 9, 5000, segment)
    write(store, OTHER, 0, 9, 100)
    store.checkpoint(str(tmp_path / "copy"))
    write(store, LOG, 20, 29, 5000, 10)

    copy = RocksStore(str(tmp_path / "copy"))
    assert content(copy.open(LOG)) == expected(0, 19, 5000)
    assert content(copy.open(OTHER)) == expected(0, 9, 100)
    write(copy, LOG, 20, 21, 7000, 10)
    copy.open(LOG).drop_before(RaftIndex(11), Offset(10), [Offset(0)])
    copy.flush()
    copy.close()

    assert content(store.open(LOG)) == expected(0, 29, 5000)


def test_a_turn_with_more_batches_than_one_system_call_takes(
    store: RocksStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rocks_partition, "INLINE_BELOW", 0)
    partition = store.open(LOG)
    for offset in range(2500):
        partition.append(an_entry(offset, offset, 1, 100), a_batch(offset, 100), Offset(0))
    store.flush()

    assert content(partition) == expected(0, 2499, 100)


def test_syncing_many_files_and_few(store: RocksStore) -> None:
    write(store, LOG, 0, 0, 5000)
    store.sync()
    for number in range(20):
        write(store, LogId(LOG.topic_id, number), 1, 1, 5000)
    store.sync()
    store.drop(LOG)
    write(store, OTHER, 2, 2, 5000)
    store.wait_for_garbage()
    store.sync()
