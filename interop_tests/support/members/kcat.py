"""kcat -G as a member: it is a process of its own, and what it prints is all it tells."""

import contextlib
import itertools
import json
import re
import shutil
import subprocess
import threading
import time
from typing import Any

from interop_tests.support.members.host import LEAVE_SECONDS, Member, Place, Seen

_REBALANCED = re.compile(r"% Group \S+ rebalanced .*?: (assigned|revoked): ?(.*)")
_PLACE = re.compile(r"(\S+) \[(\d+)\]")
_numbers = itertools.count()


class KcatHost:
    """A process per member."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._readers: list[threading.Thread] = []

    def join(
        self,
        bootstrap: str,
        group: str,
        *topics: str,
        pattern: str | None = None,
        config: dict[str, Any] | None = None,
    ) -> Member:
        assert shutil.which("kcat"), "kcat is missing: run interop_tests/setup.sh"
        settings = {
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": 500,
        }
        options = [part for name, value in {**settings, **(config or {})}.items() for part in ("-X", f"{name}={value}")]
        wanted = [pattern] if pattern else list(topics)
        member = Member(name=f"{group}#kcat{next(_numbers)}")
        process = subprocess.Popen(
            ["kcat", "-b", bootstrap, "-J", "-u", "-E", *options, "-G", group, *wanted],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._processes[member.name] = process
        for read in (_read_records, _read_rebalances):
            reader = threading.Thread(target=read, args=(process, member), daemon=True)
            self._readers.append(reader)
            reader.start()
        return member

    def leave(self, member: Member) -> None:
        process = self._processes.pop(member.name)
        process.terminate()
        process.wait(LEAVE_SECONDS)
        member.take({"event": "left"})

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()
        self._processes.clear()

    def close(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LEAVE_SECONDS)
        self.kill()

    def log_tail(self) -> str:
        return ""


def _read_records(process: subprocess.Popen[bytes], member: Member) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return  # cut off by the kill
            record = json.loads(line)
            member.records.append(
                Seen(
                    topic=record["topic"],
                    partition=record["partition"],
                    offset=record["offset"],
                    value=record["payload"],
                    at=time.monotonic(),
                )
            )


def _read_rebalances(process: subprocess.Popen[bytes], member: Member) -> None:
    assert process.stderr is not None
    with process.stderr as lines:
        for line in lines:
            found = _REBALANCED.match(line.decode())
            if found:
                _rebalanced(member, found[1], [(topic, int(index)) for topic, index in _PLACE.findall(found[2])])
            elif not line.startswith(b"% Reached end"):
                member.problems.append(line.decode().strip())


def _rebalanced(member: Member, what: str, places: list[Place]) -> None:
    if what == "assigned":
        member.take({"event": "assignment", "places": places})
    else:
        member.take({"event": "revoked", "places": places})
        member.take({"event": "assignment", "places": []})
