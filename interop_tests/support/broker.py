"""The broker under test, as a process of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from interop_tests.support.wait import until

EXTERNAL_VARIABLE = "KOMPAT_TEST_BOOTSTRAP"
READY = " ready: kafka "
LOG_TAIL_LINES = 80
DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}  # else every new group waits for three seconds, for nobody


def free_port() -> int:
    """A port that was free a moment ago; a restarted broker comes back on it, as its clients expect."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def clean_environment(**more: str) -> dict[str, str]:
    """This process's, without the variables that a broker would take for settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KOMPAT_")} | more


class External:
    """A broker that somebody else runs, given by KOMPAT_TEST_BOOTSTRAP."""

    is_ours = False

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def log_tail(self) -> str:
        return f"{self.bootstrap} is not ours: no logs"


class Broker:
    """One `kompat start`, its data directory and its logs."""

    is_ours = True
    started: list["Broker"]

    def __init__(
        self, home: Path, settings: Mapping[str, str] | None = None, *, data: Path | str | None = None
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.data = str(data or home / "data")
        self.port = free_port()
        self.http_port: int | None = None  # to be set before the start, for a broker with an HTTP door
        self.settings = {**DEFAULTS, **(settings or {})}
        self.options: tuple[str, ...] = ()
        self.environment: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def http_flag(self) -> str:
        return "none" if self.http_port is None else str(self.http_port)

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def command(self) -> list[str]:
        options = [part for name, value in self.settings.items() for part in ("--set", f"{name}={value}")]
        place = ("--host", "127.0.0.1", "--port", str(self.port), "--http-port", self.http_flag, "--data", self.data)
        return [sys.executable, "-m", "kompat", "start", *place, *options, *self.options]

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process without waiting for it to be ready."""
        with (self.home / "stdout").open("wb") as out, (self.home / "stderr").open("ab") as err:
            self.process = subprocess.Popen(
                self.command(), stdout=out, stderr=err, cwd=self.home, env=clean_environment(**self.environment)
            )
        Broker.started.append(self)
        return self.process

    def start(self, *, seconds: float = 30.0) -> float:
        """Start, wait for the ready line, and return the seconds that took."""
        began = time.monotonic()
        process = self.spawn()
        until(lambda: READY in self.stdout() or process.poll() is not None, "the broker is ready", seconds=seconds)
        assert process.poll() is None, (
            f"the broker ended with {process.returncode} instead of starting:\n{self.log_tail()}"
        )
        return time.monotonic() - began

    def stop(self, *, seconds: float = 20.0) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def kill(self) -> None:
        """SIGKILL: nothing in the process gets a chance to tidy up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def restart(self) -> float:
        assert self.stop() == 0
        return self.start()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        with contextlib.suppress(ValueError):
            Broker.started.remove(self)

    def stdout(self) -> str:
        return (self.home / "stdout").read_text()

    def stderr(self) -> str:
        return (self.home / "stderr").read_text(errors="replace")

    def log_tail(self) -> str:
        lines = [*self.stdout().splitlines(), *self.stderr().splitlines()]
        return "\n".join(lines[-LOG_TAIL_LINES:])


Broker.started = []

AnyBroker = Broker | External


def external() -> External | None:
    bootstrap = os.environ.get(EXTERNAL_VARIABLE)
    return External(bootstrap) if bootstrap else None


@contextlib.contextmanager
def running(
    home: Path, settings: Mapping[str, str] | None = None, *, data: Path | str | None = None, http: bool = False
) -> Iterator[Broker]:
    """A started broker that is gone afterwards, however the test ended."""
    broker = Broker(home, settings, data=data)
    broker.http_port = free_port() if http else None
    try:
        broker.start()
        yield broker
    finally:
        broker.close()
