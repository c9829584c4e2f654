"""A broker process, started by the command that people type."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

READY = re.compile(r"kompat \S+ ready: kafka (\S+):(\d+)(?: http (\S+))?\n")


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("KOMPAT_")} | dict(extra or {})


class Process:
    def __init__(self, *flags: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        self.popen = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "kompat", "start", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(environ),
            cwd=cwd,
        )
        self.ready_line = ""
        self.port = 0

    def wait_until_ready(self) -> None:
        assert self.popen.stdout is not None
        self.ready_line = self.popen.stdout.readline()
        found = READY.fullmatch(self.ready_line)
        assert found is not None, f"not ready: {self.ready_line!r} {self.popen.communicate()[1]}"
        self.port = int(found[2])

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Exit status, the rest of stdout, stderr."""
        self.popen.send_signal(number)
        out, err = self.popen.communicate(timeout=15)
        return self.popen.returncode, out, err


@contextmanager
def started(*flags: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Iterator[Process]:
    process = Process(*flags, environ=environ, cwd=cwd)
    try:
        process.wait_until_ready()
        yield process
    finally:
        if process.popen.poll() is None:
            process.popen.kill()
        process.popen.communicate()


def refused(*flags: str, environ: Mapping[str, str] | None = None) -> str:
    """What a start that must fail says on stderr: one line."""
    process = Process(*flags, environ=environ)
    out, err = process.popen.communicate(timeout=15)
    assert process.popen.returncode == 2
    assert out == ""
    said = [line for line in err.splitlines() if not line.startswith("time=")]
    assert len(said) == 1, err
    assert said[0].startswith("kompat: ")
    return said[0]
