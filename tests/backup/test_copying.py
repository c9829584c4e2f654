"""A copy that is made while the log grows has all that was acknowledged before, and is a log like any other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from kompat.backup import copying as backup
from kompat.backup.copying import BackupError
from kompat.backup.service import BackupExists, Backups
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.log.storage.lock import RUNNING
from kompat.log.storage.memory import MemoryStore
from kompat.log.storage.rocks import RocksStore
from kompat.log.storage.store import Entry, EntryKind
from kompat.raft.states import HARD, Hard, load_hard
from kompat.types import LogId, Millis, Offset, RaftIndex
from tests.log.storage.batches import a_batch

FACTS = {"version": "1", "node_id": 3, "cluster_id": "c", "created": 5}
LOG = LogId(UUID(int=9), 0)
SIZES = (100, 6000)  # in the database, and in the value log


def batch(offset: int) -> bytes:
    return a_batch(offset, SIZES[offset % 2])


def append(store: RocksStore, first: int, count: int, written: dict[int, bytes]) -> None:
    log = store.open(LOG)
    for offset in range(first, first + count):
        content = written[offset] = batch(offset)
        entry = Entry(
            RaftIndex(offset + 1),
            1,
            EntryKind.DATA,
            Offset(offset),
            Offset(offset),
            len(content),
            Millis(1),
            0,
            -1,
            -1,
            -1,
        )
        log.append(entry, content, Offset(offset // 50 * 50))
    store.flush()


def contents(store: RocksStore) -> dict[int, bytes]:
    log, found, place = store.open(LOG), {}, Offset(0)
    while True:
        run = log.read(place, 1, Offset(1 << 40))
        if not run.buffers:
            return found
        found[int.from_bytes(bytes(run.buffers[0][:8]), "big")] = b"".join(map(bytes, run.buffers))
        place = run.next_offset


def store_in(directory: Path) -> RocksStore:
    return RocksStore(str(directory))


async def test_all_that_was_written_before_it_began_is_in_it_while_more_is_written(tmp_path: Path) -> None:
    store, written = store_in(tmp_path / "data"), {}
    backups = Backups(store, str(tmp_path / "backups"), lambda: FACTS)
    append(store, 0, 200, written)
    creating = asyncio.ensure_future(backups.create("one"))
    end = 200
    while not creating.done():
        append(store, end, 5, written)
        end += 5
        await asyncio.sleep(0)
    manifest = await creating
    store.close()

    assert (manifest.node_id, manifest.cluster_id) == (3, "c")
    assert backup.restore(tmp_path / "backups" / "one", tmp_path / "restored") == manifest
    restored = store_in(tmp_path / "restored")
    found = contents(restored)
    assert restored.is_restored
    assert 200 <= len(found) <= end
    assert found == {offset: written[offset] for offset in range(len(found))}  # a beginning, whole
    append(restored, len(found), 10, written)  # and it goes on
    assert len(contents(restored)) == len(found) + 10
    restored.close()


async def test_the_backup_stays_as_it_is_whatever_the_broker_does_later(tmp_path: Path) -> None:
    store, written = store_in(tmp_path / "data"), {}
    append(store, 0, 200, written)
    await Backups(store, str(tmp_path / "backups"), lambda: FACTS).create("one")
    store.open(LOG).truncate_from(RaftIndex(51), Offset(50))
    store.flush()
    append(store, 50, 100, dict(written))
    store.drop(LOG)
    store.flush()
    store.wait_for_garbage()
    store.close()

    for target in ("first", "second"):
        backup.restore(tmp_path / "backups" / "one", tmp_path / target)
        restored = store_in(tmp_path / target)
        assert contents(restored) == written
        append(restored, 200, 10, dict(written))
        restored.close()


async def test_a_name_is_used_once_and_cannot_lead_elsewhere(tmp_path: Path) -> None:
    store = store_in(tmp_path / "data")
    backups = Backups(store, str(tmp_path / "backups"), lambda: FACTS)
    await backups.create("one")

    with pytest.raises(BackupExists):
        await backups.create("one")
    for name in ("../two", "/two", "", ".", "..", "a/b", ".hidden", "x" * 200):
        with pytest.raises(KafkaError) as raised:
            await backups.create(name)
        assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert [name for name, _ in await backups.list()] == ["one"]
    store.close()


async def test_without_a_directory_or_a_disk_there_are_no_backups(tmp_path: Path) -> None:
    store = store_in(tmp_path / "data")

    with pytest.raises(KafkaError, match=r"kompat\.backup\.dir"):
        await Backups(store, None, lambda: FACTS).create("one")
    with pytest.raises(KafkaError, match="memory"):
        await Backups(MemoryStore(), str(tmp_path), lambda: FACTS).create("one")
    store.close()


async def test_one_that_is_not_whole_is_not_restored(tmp_path: Path) -> None:
    store, one = store_in(tmp_path / "data"), tmp_path / "backups" / "one"
    append(store, 0, 100, {})
    await Backups(store, str(one.parent), lambda: FACTS).create("one")
    store.close()
    victim = next(path for path in sorted(one.rglob("*")) if path.is_file() and path.parent.parent.name == "values")
    victim.write_bytes(victim.read_bytes()[:-1])

    with pytest.raises(BackupError, match=r"not whole: values/.*"):
        backup.restore(one, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    with pytest.raises(BackupError, match="no backup"):
        backup.restore(tmp_path / "data", tmp_path / "restored")


async def test_nothing_is_restored_over_something_else(tmp_path: Path) -> None:
    store = store_in(tmp_path / "data")
    await Backups(store, str(tmp_path / "backups"), lambda: FACTS).create("one")
    store.close()

    with pytest.raises(BackupError, match="not empty"):
        backup.restore(tmp_path / "backups" / "one", tmp_path / "data")
    (tmp_path / "empty").mkdir()
    backup.restore(tmp_path / "backups" / "one", tmp_path / "empty")
    assert (tmp_path / "empty" / RUNNING).exists()


async def test_a_copy_never_takes_the_space_that_the_broker_needs(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path / "data"), reserve_bytes=1 << 60)

    with pytest.raises(BackupError, match="are needed"):
        await Backups(store, str(tmp_path / "backups"), lambda: FACTS).create("one")
    assert not list((tmp_path / "backups").iterdir())
    store.close()


async def test_no_term_from_before_is_voted_in_again(tmp_path: Path) -> None:
    store = store_in(tmp_path / "data")
    append(store, 0, 1, {})
    store.open(LOG).put_state(HARD, Hard(7, 2, RaftIndex(1), RaftIndex(1)).encode())
    store.flush()
    await Backups(store, str(tmp_path / "backups"), lambda: FACTS).create("one")
    store.close()

    backup.restore(tmp_path / "backups" / "one", tmp_path / "restored")

    restored = store_in(tmp_path / "restored")
    assert load_hard(restored.open(LOG)) == Hard(7 + backup.TERMS_PASSED, 0, RaftIndex(1), RaftIndex(1))
    restored.close()


def test_a_directory_of_another_format_is_left_alone(tmp_path: Path) -> None:
    store_in(tmp_path).close()
    (tmp_path / "db" / "FORMAT").write_text("kompat log store, format 2\n")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "db").iterdir()}

    with pytest.raises(StorageError, match="format 2"):
        store_in(tmp_path)

    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "db").iterdir()} == before
