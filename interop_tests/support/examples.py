"""Examples in the documentation, and how they are run: page by page, as a reader would who pastes one after the other.

The blocks of a page that are marked `sh` or `python` run in order, in an empty directory. A line that begins with `kompat start` or
`kompat cluster start` runs on behind the ones that follow, until the next such line or the end of the page; where the first block
has none, a broker is started for it. Each page has a network of its own where that is allowed, so that the ports can be those that
everybody knows. What cannot be run here says so, and why, in a comment before the block: `<!-- not run: it needs Docker -->`.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from interop_tests.support.network import ip

SECONDS = 300.0  # for one block, or a server to be ready
RUN = ("sh", "python")
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n\s*)?^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_SERVER = re.compile(r"kompat (cluster )?start\b")


class ExampleError(Exception):
    """An example did not do what its page promises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    line: int
    language: str
    text: str
    reason: str | None  # why it is not run

    @property
    def starts_server(self) -> bool:
        return self.language == "sh" and any(map(_SERVER.match, self.text.splitlines()))


def examples(page: str) -> list[Example]:
    found = []
    for match in _BLOCK.finditer(page):
        if match["language"] in RUN:
            line = page.count("\n", 0, match.start("language")) + 1
            text = re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
            found.append(Example(line=line, language=match["language"], text=text, reason=match["reason"]))
    return found


class Reader:
    """Pastes the examples of one page."""

    def __init__(self, directory: Path, path: str, inside: tuple[str, ...]) -> None:
        self._directory = directory
        self._environment = os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
        self._inside = inside
        self._server: subprocess.Popen[bytes] | None = None
        self._log = directory.with_name(f"{directory.name}.log")

    def paste(self, example: Example) -> str:
        """What it printed. Raises ExampleError where it failed."""
        if example.language == "python":
            return self._run(["python", "-c", example.text], example.line)  # the one that the path has
        shell = ""
        for command in re.sub(r"\\\n\s*", "", example.text).splitlines():
            if _SERVER.match(command):
                self._run(["bash", "-euo", "pipefail", "-c", shell], example.line)
                shell = ""
                self.serve(command)
            else:
                shell += f"{command}\n"
        return self._run(["bash", "-euo", "pipefail", "-c", shell], example.line)

    def _run(self, command: list[str], line: int) -> str:
        try:
            done = subprocess.run(
                [*self._inside, *command],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ExampleError(f"line {line}: it did not end; {error.stdout!r} {error.stderr!r}") from error
        if done.returncode:
            raise ExampleError(
                f"line {line}: exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            )
        return done.stdout

    def serve(self, command: str) -> None:
        """Run a server until the next one is wanted, from when it says that it is ready."""
        self.stop()
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(
                [*self._inside, "bash", "-c", f"exec {command}"],
                cwd=self._directory,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + SECONDS
        while b"ready: kafka" not in self._log.read_bytes():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise ExampleError(f"{command}: {self._log.read_text(errors='replace')}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            self._server.wait(SECONDS)
            self._server = None


@contextlib.contextmanager
def reader(directory: Path, path: str) -> Iterator[Reader]:
    with _network() as inside:
        pasting = Reader(directory, path, inside)
        try:
            yield pasting
        finally:
            pasting.stop()


@contextlib.contextmanager
def _network() -> Iterator[tuple[str, ...]]:
    if os.geteuid() != 0 or not shutil.which("ip"):
        yield ()
        return
    name = f"kompat-docs-{secrets.token_hex(4)}"
    try:
        ip("netns", "add", name)
    except subprocess.CalledProcessError:  # in a container without the right to it
        yield ()
        return
    inside = ("ip", "netns", "exec", name)
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        yield inside
    finally:
        ip("netns", "delete", name)
