"""Foreign-language clients: long-lived processes that take calls as JSON lines."""

import contextlib
import json
import select
import subprocess
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
JAVA_TARGET = HERE / "java" / "target"
GO_BINARY = HERE / "go" / "bin" / "goclients"

# C1 only: these processes live for seconds, and the broker needs the cores.
JAVA = [
    "java",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]
# What the older client shares with the newer one.
SHARED_LIBRARIES = ("lz4-java", "snappy-java", "zstd-jni", "slf4j", "jackson")


class CallError(Exception):
    """The client reported an error; `code` is Kafka's number for it, -1 where it has none."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(f"{name} ({code}): {message}")
        self.code = code
        self.name = name
        self.message = message


class Worker:
    """One process; calls run one after the other."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as err:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)

    def call(self, verb: str, bootstrap: str, *, seconds: float = 60.0, **arguments: Any) -> Any:
        request = {"do": verb, "bootstrap": bootstrap, **arguments}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        reply = json.loads(self._read_line(verb, seconds))
        if "error" in reply:
            raise CallError(reply["error"]["code"], reply["error"]["name"], reply["error"]["message"])
        return reply["ok"]

    def _read_line(self, verb: str, seconds: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        line = self._process.stdout.readline() if ready else b""
        assert line, (
            f"no answer to {verb} within {seconds} s (status {self._process.poll()}):\n{self._log.read_text()[-4000:]}"
        )
        return line

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=10)


def _built(path: Path) -> Path:
    assert path.exists(), f"{path} is missing: run interop_tests/setup.sh"
    return path


def java_command(main: str) -> list[str]:
    """The newest Java client and Kafka's tools."""
    path = f"{_built(JAVA_TARGET / 'classes')}:{_built(JAVA_TARGET / 'libs')}/*"
    return [*JAVA, "-cp", path, main]


def old_java_command(main: str) -> list[str]:
    """The Java client of the 3.9 line, which Spark 4 ships."""
    shared = [str(jar) for jar in _built(JAVA_TARGET / "libs").glob("*.jar") if jar.name.startswith(SHARED_LIBRARIES)]
    path = ":".join([str(_built(JAVA_TARGET / "classes")), f"{_built(JAVA_TARGET / 'old-client')}/*", *shared])
    return [*JAVA, "-cp", path, main]


def java_worker(log: Path) -> Worker:
    return Worker(java_command("kompat.interop.Host"), log)


def old_java_worker(log: Path) -> Worker:
    return Worker(old_java_command("kompat.interop.Host"), log)


def go_command(*arguments: str) -> list[str]:
    return [str(_built(GO_BINARY)), *arguments]


def go_worker(log: Path) -> Worker:
    return Worker(go_command(), log)
