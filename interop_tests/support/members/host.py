"""The test's side of the member processes."""

import contextlib
import itertools
import json
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop_tests.support.wait import until

Place = tuple[str, int]
LEAVE_SECONDS = 30.0

_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A record as a member got it; `at` is its process's reading of the monotonic clock."""

    topic: str
    partition: int
    offset: int
    value: str
    at: float
    deliveries: int = 1  # to members of share groups, this one included

    @property
    def place(self) -> Place:
        return self.topic, self.partition


@dataclass(slots=True, kw_only=True)
class Member:
    """What one member has told so far."""

    name: str
    assignment: frozenset[Place] = frozenset()
    has_assignment: bool = False
    records: list[Seen] = field(default_factory=list)
    committed: dict[Place, int] = field(default_factory=dict)
    given_up: list[Place] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    acknowledged: int = 0  # records, by a member of a share group
    has_left: bool = False

    def take(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "assignment":
                self.assignment = frozenset((topic, index) for topic, index in event["places"])
                self.has_assignment = True
            case "record":
                named = {name: event[name] for name in ("topic", "partition", "offset", "value", "at")}
                self.records.append(Seen(**named, deliveries=event.get("deliveries", 1)))
            case "committed":
                self.committed |= {(topic, index): offset for topic, index, offset in event["offsets"]}
            case "acknowledged":
                self.acknowledged += event["count"]
            case "revoked" | "lost":
                self.given_up += [(topic, index) for topic, index in event["places"]]
            case "problem":
                self.problems.append(event["text"])
            case "left":
                self.has_left = True
                self.assignment = frozenset()

    def count(self) -> int:
        return len(self.records)

    def first_after(self, start: int) -> dict[Place, int]:
        """The first offset of each partition among the records from number `start` on."""
        found: dict[Place, int] = {}
        for record in self.records[start:]:
            found.setdefault(record.place, record.offset)
        return found

    def wait_assigned(self, partitions: int, *, seconds: float = 60.0) -> None:
        self.wait(
            lambda: self.has_assignment and len(self.assignment) == partitions, f"{partitions} partitions", seconds
        )

    def wait_records(self, more: int, *, seconds: float = 60.0) -> None:
        goal = self.count() + more
        self.wait(lambda: self.count() >= goal, f"{more} more records", seconds)

    def wait(self, check: Callable[[], bool], what: str, seconds: float) -> None:
        try:
            until(check, f"{self.name} has {what}", seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.summary()}") from None

    def summary(self) -> str:
        state = f"assignment {sorted(self.assignment)}, {self.count()} records, left: {self.has_left}"
        return f"{self.name}: {state}, last problems {self.problems[-3:]}"


class Host:
    """One process with members in it."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        self._members: dict[str, Member] = {}
        with log.open("ab") as err:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def join(
        self,
        bootstrap: str,
        group: str,
        *topics: str,
        pattern: str | None = None,
        config: dict[str, Any] | None = None,
    ) -> Member:
        name = f"{group}#{next(_numbers)}"
        member = self._members[name] = Member(name=name)
        order = {"bootstrap": bootstrap, "group": group, "topics": topics, "pattern": pattern, "config": config or {}}
        self._send({"do": "join", "member": name, **order})
        return member

    def leave(self, member: Member) -> None:
        """Let the member commit and leave its group."""
        self._send({"do": "leave", "member": member.name})
        until(lambda: member.has_left, f"{member.name} has left\n{self.log_tail()}", seconds=LEAVE_SECONDS)

    def leave_all(self) -> None:
        for member in self._members.values():
            if not member.has_left:
                self._send({"do": "leave", "member": member.name})
        until(
            lambda: all(member.has_left for member in self._members.values()),
            f"all members have left\n{self.log_tail()}",
            seconds=LEAVE_SECONDS,
        )

    def kill(self) -> None:
        """SIGKILL; afterwards everything that the members told before is known."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Let all members leave, and end the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def _send(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith(b"\n"):
                return  # cut off by the kill
            event = json.loads(line)
            self._members[event["member"]].take(event)
