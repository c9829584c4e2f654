"""What the disk has not kept as it was written is never given out, and what lies around it is."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kompat import _native
from kompat.errors import DamagedBatch
from kompat.log.storage.rocks import RocksStore
from kompat.log.storage.store import Rewrite
from kompat.types import Millis, Offset
from tests.log.storage.batches import LOG, a_batch, content, expected, write

SIZE = 5000  # more than stays in the database


@pytest.fixture
def written(data: Path) -> Path:
    store = RocksStore(str(data))
    write(store, LOG, 0, 19, SIZE)
    store.close()
    return data


def _file(directory: Path) -> Path:
    (path,) = (directory / "values").glob("*/*")
    return path


def _flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


@given(st.lists(st.integers(61, 400), min_size=1, max_size=5), st.data())
def test_the_size_of_whole_batches_ends_where_the_first_bit_flipped(sizes: list[int], data: st.DataObject) -> None:
    batches = [a_batch(number, size) for number, size in enumerate(sizes)]
    joined = bytearray(b"".join(batches))
    assert _native.whole_batches(joined) == len(joined)
    at = data.draw(st.integers(0, len(joined) - 1))
    joined[at] ^= 1 << data.draw(st.integers(0, 7))
    before = 0
    while before + len(batches[0]) <= at:
        before += len(batches.pop(0))
    # Base offset and leader epoch lie outside of the checksum.
    assert _native.whole_batches(joined) == (len(joined) if at - before in {*range(8), *range(12, 16)} else before)
    assert _native.whole_batches(joined[:at]) == before


@pytest.mark.parametrize("byte", [0, 9, 16, 18, 21, 60, SIZE - 1])
def test_a_flipped_bit_is_found_and_reads_go_on_behind_it(written: Path, byte: int) -> None:
    _flip(_file(written), 7 * SIZE + byte)
    store = RocksStore(str(written))
    partition = store.open(LOG)

    assert content(partition, 0, 7) == expected(0, 6, SIZE)
    assert partition.read(Offset(0), 1 << 20, Offset(100)).next_offset == 7
    with pytest.raises(DamagedBatch, match="from offset 7 to 7") as found:
        partition.read(Offset(7), 1 << 20, Offset(100))
    assert (found.value.first, found.value.last) == (7, 7)
    assert content(partition, 8) == expected(8, 19, SIZE)
    store.close()


def test_a_file_that_was_cut_short_gives_what_is_left_of_it(written: Path) -> None:
    os.truncate(_file(written), 12 * SIZE + 100)
    store = RocksStore(str(written))
    partition = store.open(LOG)

    assert content(partition, 0, 12) == expected(0, 11, SIZE)
    for offset in range(12, 20):
        with pytest.raises(DamagedBatch) as found:
            partition.read(Offset(offset), 1 << 20, Offset(100))
        assert found.value.first == offset
    store.close()


def test_what_replaces_a_damaged_batch_is_read_from_then_on(written: Path) -> None:
    _file(written).unlink()
    store = RocksStore(str(written))
    partition = store.open(LOG)
    with pytest.raises(DamagedBatch):
        partition.read(Offset(0), 1 << 20, Offset(100))
    for offset in range(20):
        good = a_batch(offset, SIZE)
        partition.rewrite([Rewrite(Offset(offset), Offset(offset), Millis(1000 + offset), good)], Offset(0))
    store.flush()
    write(store, LOG, 20, 21, SIZE)

    assert content(partition) == expected(0, 21, SIZE)
    assert partition.size() == 22 * SIZE
    store.close()
    store = RocksStore(str(written))
    assert content(store.open(LOG)) == expected(0, 21, SIZE)
    store.close()


def test_a_damaged_block_of_the_database_is_told_by_its_offsets_and_reads_go_on_behind_it(data: Path) -> None:
    store = RocksStore(str(data))
    write(store, LOG, 0, 99, 1000)
    store.close()
    table = next(path for path in (data / "db").glob("*.sst") if path.stat().st_size > 90_000)
    _flip(table, 50_000)
    store = RocksStore(str(data))
    partition = store.open(LOG)

    before = partition.read(Offset(0), 1 << 20, Offset(100))
    assert b"".join(bytes(each) for each in before.buffers) == expected(0, before.next_offset - 1, 1000)
    with pytest.raises(DamagedBatch, match="checksum mismatch") as found:
        partition.read(before.next_offset, 1 << 20, Offset(100))
    assert found.value.first == before.next_offset
    assert 10 <= found.value.last - found.value.first <= 20  # a block has 16 kB
    assert content(partition, found.value.last + 1) == expected(found.value.last + 1, 99, 1000)
    store.close()
