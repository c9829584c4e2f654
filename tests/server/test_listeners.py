"""The broker's listeners, as an operator finds them after the start."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kompat.broker import Broker
from kompat.config.load import load
from kompat.log.storage.rocks import RocksStore
from kompat.server.limits import limits_of

OPEN = "a listener lets in everybody who reaches it: SASL or ssl.client.auth=required ends that"
PROTOCOLS = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"}
USERS = {"sasl.enabled.mechanisms": "PLAIN", "kompat.bootstrap.scram": "SCRAM-SHA-256=[name=alice,password=secret]"}


async def warnings(caplog: pytest.LogCaptureFixture, settings: dict[str, str]) -> int:
    caplog.clear()
    broker = Broker(load({"data": ":memory:", "http-port": "none", **settings}, environ={}))
    await broker.start()
    await broker.stop()
    return sum(record.message == OPEN for record in caplog.records)


async def test_listeners_that_let_in_everybody_from_elsewhere_are_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await warnings(caplog, {"listeners": "PLAINTEXT://0.0.0.0:0,OTHER://0.0.0.0:0", **PROTOCOLS}) == 1
    assert await warnings(caplog, {"listeners": "PLAINTEXT://127.0.0.1:0"}) == 0
    assert await warnings(caplog, {"listeners": "SASL_PLAINTEXT://0.0.0.0:0", **USERS}) == 0


def test_nobody_but_its_owner_can_look_into_a_data_directory(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        RocksStore(str(tmp_path / "deep" / "data")).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "deep" / "data").stat().st_mode) == 0o700


def test_limits_of_addresses_come_from_the_settings() -> None:
    given = {"max.connections.per.ip": "3", "max.connections.per.ip.overrides": "127.0.0.2:1"}

    found = limits_of(load(given, environ={}))

    assert (found.connections_per_ip, found.connections_of_ip) == (3, {"127.0.0.2": 1})
