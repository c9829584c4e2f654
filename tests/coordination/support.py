"""A store that can be full and can crash, and the smallest machine that is worth running."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from uuid import UUID

from kompat.clock import Clock, SystemClock
from kompat.config.topic import TopicConfig
from kompat.coordination.decision import Decision
from kompat.coordination.runtime import Runtime
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.log.commit import Fsync, GroupCommit
from kompat.log.manager import Logs
from kompat.log.memory import MemoryStore
from kompat.types import LogId, Millis

LOG_ID = LogId(UUID(int=7), 0)


class Disk(MemoryStore):
    is_full = False
    is_broken = False  # takes writes, but cannot force them onto the medium
    flushes = 0

    def __init__(self) -> None:
        super().__init__()
        self.is_fast = Event()  # until it is, a forced write lasts
        self.is_fast.set()

    def sync(self) -> None:
        assert self.is_fast.wait(10)
        if self.is_broken:
            raise StorageError("input/output error")

    def flush(self) -> None:
        self.flushes += 1
        if self.is_full:
            self._staged.clear()
            raise StorageError("no space left")
        super().flush()

    def crash(self) -> None:
        """Nothing of what is staged reaches the disk."""
        self._staged.clear()


class Node:
    """What a broker has below its machines."""

    def __init__(self, disk: Disk, *, clock: Clock | None = None, fsync: Fsync = "never") -> None:
        self.disk = disk
        self.clock = clock or SystemClock()
        self.commit = GroupCommit(
            disk, asyncio.get_running_loop(), fsync=fsync, on_failed=lambda: self.logs.reload_failed()
        )
        self.logs = Logs(disk, self.commit, self.clock)

    async def close(self) -> None:
        await self.logs.close()
        await self.commit.close()


@dataclass(frozen=True, slots=True)
class Added:
    key: str
    amount: int


class Ledger:
    """Adds up, and refuses debts."""

    def __init__(self) -> None:
        self.sums: dict[str, int] = {}
        self.deadline: Millis | None = None
        self.ticks: list[Millis] = []

    def apply(self, record: Added) -> None:
        self.sums[record.key] = self.sums.get(record.key, 0) + record.amount

    def snapshot(self) -> Iterator[Added]:
        return (Added(key, amount) for key, amount in self.sums.items())

    def add(self, key: str, amount: int) -> Decision[Added, int]:
        total = self.sums.get(key, 0) + amount
        if total < 0:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{key} would be {total}")
        return Decision([Added(key, amount)], total)

    def look(self, key: str) -> Decision[Added, int]:
        return Decision([], self.sums.get(key, 0))


class TimedLedger(Ledger):
    """Adds one to `ticks` whenever its deadline has come."""

    def remind(self, at: Millis) -> Decision[Added, None]:
        self.deadline = at
        return Decision([], None)

    def next_deadline(self) -> Millis | None:
        return self.deadline

    def tick(self, now: Millis) -> Decision[Added, None]:
        if self.deadline is None or now < self.deadline:
            return Decision([], None)
        self.deadline = None
        return Decision([Added("ticks", 1)], None)


class LedgerCodec:
    def encode(self, record: Added) -> tuple[bytes, bytes]:
        return record.key.encode(), json.dumps(record.amount).encode()

    def decode(self, key: bytes | None, value: bytes | None) -> Added | None:
        return Added((key or b"").decode(), json.loads(value)) if value is not None else None


class Audience:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.loads = 0
        self.heard: list[Added] = []

    def loaded(self) -> None:
        self.loads += 1
        self.heard.clear()

    def committed(self, records: Sequence[Added]) -> None:
        self.heard += records


def runtime_on(
    node: Node,
    make: type[Ledger] = Ledger,
    *,
    audience: Audience | None = None,
    snapshot_after: int = 1 << 20,
    has_snapshots: bool = True,
    failures: Mapping[ErrorCode, ErrorCode] | None = None,
) -> Runtime[Ledger, Added]:
    log = node.logs.open_private(LOG_ID, "ledger", 0, TopicConfig())
    store = log.store if has_snapshots else None
    return Runtime(
        make,
        LedgerCodec(),
        log,
        clock=node.clock,
        store=store,
        listener=audience or Audience(),
        snapshot_after=snapshot_after,
        failures=failures,
    )
