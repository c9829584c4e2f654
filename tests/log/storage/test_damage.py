"""A damaged database is reported, with what to do, and never taken for an empty one."""

import logging
import os
import shutil
from pathlib import Path

import pytest

from kompat.errors import DamagedData, StorageError
from kompat.log.storage.rocks import RocksStore
from kompat.types import LogId, Offset, RaftIndex
from tests.log.storage.batches import LOG, a_batch, an_entry, content, expected, write


@pytest.fixture
def written(data: Path) -> Path:
    """A directory that was closed well, with tables."""
    store = RocksStore(str(data))
    write(store, LOG, 0, 99, 1000)
    store.close()
    return data


@pytest.fixture
def killed(data: Path, tmp_path: Path) -> Path:
    """A directory as a killed broker leaves it: everything is in the write-ahead log and in the value log."""
    store = RocksStore(str(data))
    write(store, LOG, 0, 39, 1000)
    write(store, LOG, 40, 59, 5000)
    copy = tmp_path / "killed"
    shutil.copytree(data, copy)
    store.close()
    return copy


def _overwrite(path: Path, at: int, size: int = 64) -> None:
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        file.write(b"\xde\xad" * (size // 2))


def _only(paths: list[Path]) -> Path:
    (path,) = paths
    return path


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*"])
@pytest.mark.parametrize("how", ["overwritten", "removed", "emptied"])
def test_damage_that_keeps_the_database_closed(written: Path, name: str, how: str) -> None:
    path = _only(list((written / "db").glob(name)))
    if how == "overwritten":
        _overwrite(path, 0 if name == "CURRENT" else path.stat().st_size // 2)
    elif how == "removed":
        path.unlink()
    else:
        path.write_bytes(b"")
    left = sorted(path.name for path in (written / "db").glob("*.sst"))

    for _ in range(2):  # the first attempt has not made it worse
        with pytest.raises(DamagedData, match=r"damaged.*Restore the data directory"):
            RocksStore(str(written))
    assert sorted(path.name for path in (written / "db").glob("*.sst")) == left


def test_a_lost_current_file_is_damage_also_without_the_format_note(written: Path) -> None:
    (written / "db" / "CURRENT").unlink()
    (written / "db" / "FORMAT").unlink()

    with pytest.raises(DamagedData, match="CURRENT is missing"):
        RocksStore(str(written))


def test_a_missing_table_keeps_the_database_closed(written: Path) -> None:
    next((written / "db").glob("*.sst")).unlink()

    with pytest.raises(DamagedData):
        RocksStore(str(written))


def test_a_damaged_block_is_reported_not_taken_for_the_end(written: Path) -> None:
    for table in (written / "db").glob("*.sst"):
        _overwrite(table, 500)
    store = RocksStore(str(written))

    with pytest.raises(DamagedData, match="checksum"):
        list(store.open(LOG).entries(RaftIndex(0)))
    with pytest.raises(DamagedData):
        store.open(LOG).first_entry()
    with pytest.raises(StorageError):
        store.open(LOG).read(Offset(0), 1 << 20, Offset(1000))
    store.close()


def test_a_killed_broker_has_lost_nothing(killed: Path) -> None:
    store = RocksStore(str(killed))

    assert content(store.open(LOG)) == expected(0, 39, 1000) + expected(40, 59, 5000)
    store.close()


def test_a_torn_tail_of_the_write_ahead_log_is_cut_off(killed: Path) -> None:
    log = _only(list((killed / "db").glob("*.log")))
    os.truncate(log, log.stat().st_size - 20)
    store = RocksStore(str(killed))

    assert content(store.open(LOG)) == expected(0, 39, 1000) + expected(40, 58, 5000)
    write(store, LOG, 59, 60, 5000)
    assert content(store.open(LOG)) == expected(0, 39, 1000) + expected(40, 60, 5000)
    store.close()


def test_damage_inside_the_write_ahead_log_is_reported(killed: Path) -> None:
    log = _only(list((killed / "db").glob("*.log")))
    _overwrite(log, log.stat().st_size // 2)

    with pytest.raises(DamagedData):
        RocksStore(str(killed))


def test_a_lost_write_ahead_log_is_reported(killed: Path) -> None:
    _only(list((killed / "db").glob("*.log"))).unlink()

    with pytest.raises(DamagedData, match="write-ahead log is missing"):
        RocksStore(str(killed))


def test_a_lost_value_log_file_fails_its_reads_only(killed: Path) -> None:
    _only(list((killed / "values").glob("*/*"))).unlink()
    store = RocksStore(str(killed))
    partition = store.open(LOG)

    assert content(partition, 0, 40) == expected(0, 39, 1000)
    with pytest.raises(StorageError, match="damaged"):
        partition.read(Offset(40), 1 << 20, Offset(100))
    store.close()


def _machine_stopped(directory: Path) -> None:
    (directory / "running").write_text("another boot")


@pytest.mark.parametrize("how", ["short", "zeroed", "no file"])
def test_batches_that_did_not_reach_the_disk_before_the_machine_stopped_are_cut_off(
    killed: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    _machine_stopped(killed)
    path = _only(list((killed / "values").glob("*/*")))
    if how == "short":
        os.truncate(path, 10 * 5000 + 100)
    elif how == "zeroed":  # the first bytes of batch 50 are there, and so are all batches after it
        with path.open("r+b") as file:
            file.seek(10 * 5000 + 100)
            file.write(bytes(4000))
    else:
        shutil.rmtree(path.parent)
    with caplog.at_level(logging.WARNING):
        store = RocksStore(str(killed))
        partition = store.open(LOG)

    end = 39 if how == "no file" else 49
    good = expected(0, 39, 1000) + expected(40, end, 5000)
    assert content(partition) == good
    assert "did not reach the disk" in caplog.text
    last = partition.last_entry()
    assert last is not None
    assert (last.index, last.last_offset) == (end + 1, end)
    write(store, LOG, end + 1, end + 2, 5000)
    assert content(partition) == good + expected(end + 1, end + 2, 5000)
    store.close()


def test_a_machine_that_stopped_is_remembered_until_a_clean_end(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    _machine_stopped(killed)
    current = killed / "db" / "CURRENT"
    kept = current.read_bytes()
    current.unlink()
    with pytest.raises(DamagedData):
        RocksStore(str(killed))
    current.write_bytes(kept)
    caplog.clear()

    RocksStore(str(killed)).close()
    assert "machine stopped" in caplog.text
    caplog.clear()
    RocksStore(str(killed)).close()
    assert caplog.text == ""


def test_a_second_broker_is_refused(store: RocksStore, data: Path) -> None:
    with pytest.raises(StorageError, match=f"in use by another broker \\(process {os.getpid()}\\)"):
        RocksStore(str(data))

    write(store, LOG, 0, 0, 100)


def test_nothing_is_found_in_a_new_directory(store: RocksStore) -> None:
    partition = store.open(LOG)

    assert list(store.logs()) == []
    assert partition.first_entry() is partition.last_entry() is partition.state(b"x") is None
    assert partition.read(Offset(7), 100, Offset(100)).next_offset == 7


def test_a_log_is_found_by_what_it_has(store: RocksStore) -> None:
    logs = [LogId(LOG.topic_id, number) for number in range(4)]
    store.open(logs[0]).append(an_entry(1, 0), a_batch(0), Offset(0))
    store.open(logs[1]).put_state(b"a", b"b")
    store.open(logs[2]).add_time_index(an_entry(1, 0).max_timestamp, Offset(0))
    store.flush()

    assert set(store.logs()) == set(logs[:3])


def test_a_log_that_is_kept_inline_survives_with_all_that_was_written_after_it(data: Path, tmp_path: Path) -> None:
    other = LogId(LOG.topic_id, 1)
    store = RocksStore(str(data))
    store.open(LOG).keep_inline()
    write(store, LOG, 0, 2, 100_000)
    write(store, other, 0, 9, 100)
    copy = tmp_path / "stopped"
    shutil.copytree(data, copy)
    store.close()
    _machine_stopped(copy)
    shutil.rmtree(copy / "values")  # of the value log anything may be lost

    store = RocksStore(str(copy))

    assert content(store.open(LOG)) == expected(0, 2, 100_000)
    assert content(store.open(other)) == expected(0, 9, 100)
    store.close()
