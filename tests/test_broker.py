"""What the composition root does when a part of it fails."""

import asyncio
import socket
from pathlib import Path

import pytest

from kompat.broker import Broker
from kompat.config.load import load
from kompat.errors import StorageError
from kompat.log.storage.memory import MemoryStore
from tests.cli.support import started


async def test_a_start_that_fails_lets_go_of_the_data(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(OSError, match=port):
            await Broker(load({"data": str(tmp_path), "port": port, "http-port": "none"}, environ={})).start()

    broker = Broker(load({"data": str(tmp_path), "port": "0", "http-port": "none"}, environ={}))
    await broker.start()
    await broker.stop()


async def test_a_broker_whose_disk_refuses_can_still_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(load({"data": ":memory:", "port": "0", "http-port": "none"}, environ={}))
    await broker.start()

    def refuse(_: MemoryStore) -> None:
        raise StorageError("no space left")

    monkeypatch.setattr(MemoryStore, "flush", refuse)
    async with asyncio.timeout(5):
        await broker.stop()


def test_a_broker_whose_disk_is_full_ends_with_0(tmp_path: Path) -> None:
    flags = ("--port", "0", "--data", str(tmp_path), "--set", "kompat.disk.reserve.bytes=1000000000000000")
    with started(*flags) as broker:
        assert broker.stop()[0] == 0
