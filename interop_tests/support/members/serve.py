"""What the Python member processes share: orders from stdin, events to stdout."""

import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Place = tuple[str, int]
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A member that somebody wants: `pattern` is a regular expression in place of topics."""

    member: str
    bootstrap: str
    group: str
    topics: tuple[str, ...]
    pattern: str | None
    config: dict[str, Any]


class Reporter:
    """The voice of one member. Times are of the system's monotonic clock, which all processes share."""

    _lock = threading.Lock()

    def __init__(self, member: str) -> None:
        self._member = member
        self._assignment: list[Place] | None = None
        self.stop = threading.Event()

    def tell(self, event: str, **facts: object) -> None:
        line = json.dumps({"member": self._member, "event": event, "at": time.monotonic(), **facts})
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def assignment(self, places: Iterable[Place]) -> None:
        """Tell the assignment, if it is another one than last time."""
        now = sorted(places)
        if now != self._assignment:
            self._assignment = now
            self.tell("assignment", places=now)

    def record(self, place: Place, offset: int, value: bytes) -> None:
        self.tell("record", topic=place[0], partition=place[1], offset=offset, value=value.decode())

    def committed(self, offsets: dict[Place, int]) -> None:
        self.tell("committed", offsets=[[topic, index, offset] for (topic, index), offset in offsets.items()])

    def problem(self, error: BaseException) -> None:
        self.tell("problem", text=f"{type(error).__name__}: {error}")


def _run(member: Callable[[Order, Reporter], None], order: Order, reporter: Reporter) -> None:
    try:
        member(order, reporter)
    except Exception as error:  # noqa: BLE001 - whatever ends a member is for the test to judge
        reporter.problem(error)
        traceback.print_exc()  # to the host's log
    reporter.tell("left")


def serve(member: Callable[[Order, Reporter], None]) -> None:
    """Give each member that is ordered a thread, until stdin ends; then let all leave."""
    running: dict[str, tuple[Reporter, threading.Thread]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["member"]
        if asked["do"] == "leave":
            running[name][0].stop.set()
            continue
        order = Order(
            member=name,
            bootstrap=asked["bootstrap"],
            group=asked["group"],
            topics=tuple(asked["topics"]),
            pattern=asked["pattern"],
            config=asked["config"],
        )
        reporter = Reporter(name)
        thread = threading.Thread(target=_run, args=(member, order, reporter))
        running[name] = (reporter, thread)
        thread.start()
    for reporter, thread in running.values():
        reporter.stop.set()
        thread.join()
