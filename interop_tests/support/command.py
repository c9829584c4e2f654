"""The `kompat` command, as people and scripts run it: a process of its own."""

import json
import subprocess
import sys
from typing import Any

from interop_tests.support.broker import clean_environment

SECONDS = 90.0  # the machine may be busy


class Command:
    """Knows where the broker is, by the variables that people set."""

    def __init__(self, bootstrap: str = "127.0.0.1:1", http: str = "http://127.0.0.1:1") -> None:
        self.environment = clean_environment(KOMPAT_BOOTSTRAP_SERVER=bootstrap, KOMPAT_HTTP_URL=http)

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "kompat", *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment,
            timeout=SECONDS,
            check=False,
        )

    def raw(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What it printed. It has to succeed, and to say nothing else."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, (arguments, done)
        assert done.stderr == b"", (arguments, done)
        return done.stdout

    def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        return self.raw(*arguments, stdin=stdin).decode()

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def lines(self, *arguments: str) -> list[Any]:
        """Of commands that print an object a line."""
        return [json.loads(line) for line in self(*arguments, "--json").splitlines()]

    def fails(self, *arguments: str, status: int = 1, stdin: bytes = b"") -> str:
        """What a command that must fail says: one line."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == status, (arguments, done)
        said = done.stderr.decode().splitlines()
        assert len(said) == 1, (arguments, done)
        assert said[0].startswith("kompat: ")
        return said[0]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "kompat", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )
