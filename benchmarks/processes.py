"""The brokers under test as processes: start, CPU, memory."""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from kompat.cli.local_cluster import LocalCluster

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Usage:
    cpu: float  # seconds
    rss: float  # MiB
    peak: float  # MiB


def usage(pids: list[int]) -> Usage:
    total = Usage(0.0, 0.0, 0.0)
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total.cpu += (int(fields[11]) + int(fields[12])) / TICKS
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                total.rss += int(line.split()[1]) / 1024
            elif line.startswith("VmHWM"):
                total.peak += int(line.split()[1]) / 1024
    return total


class Window:
    """A measured span: wall time, the client's CPU, the broker's CPU."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._broker = usage(pids)
        self._client = _own_cpu()
        self.started = time.perf_counter()

    def close(self, count: int) -> dict[str, float]:
        seconds = time.perf_counter() - self.started
        broker = usage(self._pids).cpu - self._broker.cpu
        return {
            "count": float(count),
            "seconds": seconds,
            "client_cpu": _own_cpu() - self._client,
            "broker_us": broker / max(count, 1) * 1e6,
            "per_second": count / seconds,
        }


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@dataclass
class Process:
    """A broker process and how long it took until it answered."""

    name: str
    port: int
    popen: subprocess.Popen[bytes]
    log: Path
    answered_after: float = 0.0
    pids: list[int] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(30)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


def spawn(name: str, command: list[str], port: int, directory: Path) -> Process:
    (process,) = launch_all(name, [(command, port, directory)])
    return process


def launch_all(name: str, wanted: list[tuple[list[str], int, Path]]) -> list[Process]:
    """Brokers that are ready only when all of them are there: command, port and directory of each."""
    started = time.perf_counter()
    launched = [_launch(name, *each) for each in wanted]
    try:
        for process in launched:
            _await(process, started)
    except BaseException:
        for process in launched:
            process.stop()
        raise
    return launched


def _launch(name: str, command: list[str], port: int, directory: Path) -> Process:
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "output.log"
    with log.open("ab") as out:
        # What is for the benchmarks is no setting of the broker's.
        environment = {name: value for name, value in os.environ.items() if name != "KOMPAT_BENCH_CACHE"}
        popen = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env=environment)
    return Process(name, port, popen, log, pids=[popen.pid])


def _await(process: Process, started: float) -> None:
    while not _answers(process.port):
        if process.popen.poll() is not None or time.perf_counter() - started > 90:
            raise RuntimeError(f"{process.name} did not start:\n{process.log.read_text()[-2000:]}")
        time.sleep(0.005)
    process.answered_after = time.perf_counter() - started


def kompat(port: int, directory: Path, *settings: str) -> Process:
    command = [
        sys.executable,
        "-m",
        "kompat",
        "start",
        "--port",
        str(port),
        "--http-port",
        "none",
        "--data",
        str(directory / "data"),
    ]
    for setting in settings:
        command += ["--set", setting]
    return spawn("kompat", command, port, directory)


def _answers(port: int) -> bool:
    """Does the broker answer ApiVersions and Metadata (v1, all topics)?"""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as sock:
            sock.settimeout(5)
            return (
                _ask(sock, 18, 0, b"")[:2] == b"\0\0"
                and struct.unpack(">i", _ask(sock, 3, 1, struct.pack(">i", 0))[:4])[0] >= 1
            )
    except OSError:
        return False


def _ask(sock: socket.socket, key: int, version: int, body: bytes) -> bytes:
    request = struct.pack(">hhih", key, version, 7, 5) + b"probe" + body
    sock.sendall(struct.pack(">i", len(request)) + request)
    return _take(sock, struct.unpack(">i", _take(sock, 4))[0])[4:]


def _take(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        data += chunk
    return data


def kompat_cluster(port: int, directory: Path, *settings: str) -> list[Process]:
    """Three brokers, as `kompat cluster start` runs them, but without anybody who starts them again."""
    flags = [part for setting in settings for part in ("--set", setting)]
    cluster = LocalCluster(3, "127.0.0.1", port, 0, directory, flags)
    cluster.prepare()
    wanted = [(cluster.command(n), port + n - 1, directory / f"broker-{n}" / "output") for n in (1, 2, 3)]
    return launch_all("kompat", wanted)
