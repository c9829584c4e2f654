"""A program of its own that a test starts, stops and kills."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from interop_tests.support.broker import clean_environment

LOG_TAIL_LINES = 60


class Program:
    """A process, and what it printed."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=clean_environment()
            )

    def check_runs(self) -> None:
        status = self._process.poll()
        assert status is None, f"the program ended with {status}"

    def stop(self, *, seconds: float = 20.0) -> None:
        """SIGTERM, as whoever operates it sends it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=seconds)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])


@contextlib.contextmanager
def running_program(command: list[str], log: Path) -> Iterator[Program]:
    """A started program that is gone afterwards; a failure comes with what it had to say."""
    program = Program(command, log)
    try:
        yield program
    except BaseException as failure:
        failure.add_note(f"{log.name}:\n{program.log_tail()}")
        raise
    finally:
        program.kill()
