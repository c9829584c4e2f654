"""The command line of a cluster: what is refused, and one that starts and stops as a whole."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cli.support import Process, clean_environment, refused, started

pytestmark = pytest.mark.slow

SECRET = "kompat.cluster.secret=not much of a secret"  # noqa: S105


def test_brokers_without_a_secret_make_no_cluster() -> None:
    message = refused("--port", "0", "--http-port", "none", "--data", ":memory:", "--cluster", "1@127.0.0.1:0")

    assert "brokers do not talk to strangers" in message


def test_a_cluster_of_one_is_a_broker_like_any_other() -> None:
    members = ("--node-id", "7", "--cluster", "7@127.0.0.1:0", "--set", SECRET)
    with started("--port", "0", "--http-port", "none", "--data", ":memory:", *members) as broker:
        told = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"}).list_topics(timeout=10)

        assert {(b.id, b.port) for b in told.brokers.values()} == {(7, broker.port)}
        assert broker.stop()[0] == 0


def test_a_broker_that_waits_for_the_others_can_be_stopped() -> None:
    flags = ("--cluster", "1@127.0.0.1:0,2@127.0.0.1:9", "--set", SECRET)
    process = Process("--port", "0", "--http-port", "none", "--data", ":memory:", *flags)
    assert process.popen.stderr is not None
    while "no link to another broker" not in process.popen.stderr.readline():
        pass
    process.popen.send_signal(signal.SIGTERM)
    out, err = process.popen.communicate(timeout=30)

    assert (process.popen.returncode, out) == (0, ""), err


def free_base(count: int) -> int:
    """A port from which on some are free, for clients and, a hundred above, for brokers."""
    for base in range(20_000, 32_000, 250):
        try:
            for port in (*range(base, base + count), *range(base + 100, base + 100 + count)):
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")


def test_a_local_cluster_starts_and_stops_as_a_whole(tmp_path: Path) -> None:
    base = free_base(2)
    flags = ("--brokers", "2", "--port-base", str(base), "--http-port-base", "0", "--data", str(tmp_path / "data"))
    command = [sys.executable, "-m", "kompat", "cluster", "start", *flags, "--set", "num.partitions=4"]
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
    ) as all_of_it:
        assert all_of_it.stdout is not None
        try:
            ready = all_of_it.stdout.readline()
            assert re.fullmatch(rf"kompat \S+ cluster ready: kafka 127.0.0.1:{base},127.0.0.1:{base + 1}\n", ready)
            told = AdminClient({"bootstrap.servers": f"127.0.0.1:{base}"}).list_topics(timeout=10)
            assert sorted(told.brokers) == [1, 2]
            assert (tmp_path / "data" / "secret").stat().st_mode & 0o077 == 0
        finally:
            all_of_it.send_signal(signal.SIGINT)
            _, log = all_of_it.communicate(timeout=60)
        assert all_of_it.returncode == 0
    stops = [line for line in log.splitlines() if "message=stopping" in line]
    assert len(stops) == 2
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", base + 1)) != 0


def test_a_local_cluster_that_cannot_start_says_why(tmp_path: Path) -> None:
    def run(*flags: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kompat", "cluster", "start", "--http-port-base", "0", *flags]
        return subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=60, env=clean_environment(), check=False
        )

    none = run("--brokers", "0", "--data", str(tmp_path / "none"))
    assert (none.returncode, none.stderr) == (2, "kompat: --brokers 0: the number must be between 1 and 99\n")
    wrong = run("--brokers", "1", "--data", str(tmp_path / "wrong"), "--set", "no.such.setting=1")
    assert wrong.returncode == 2
    assert "no.such.setting" in wrong.stderr
    if os.geteuid() != 0:
        unwritable = run("--data", "/proc/nowhere")
        assert unwritable.returncode == 2
