"""Stores to test with."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kompat.log.storage.rocks import RocksStore

Opener = Callable[..., RocksStore]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(data: Path) -> Iterator[RocksStore]:
    store = RocksStore(str(data), max_open_files=8)
    yield store
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", mounted], capture_output=True)  # noqa: S603, S607
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.decode().strip()}")
    yield mounted
    subprocess.run(["umount", mounted], check=True)  # noqa: S603, S607
