"""A store that can be full and can crash, and the smallest machine that is worth running."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from uuid import UUID

from kompat.clock import Clock, SystemClock
from kompat.config.topic import TopicConfig
from kompat.coordination.decision import Decision
from kompat.coordination.runtime import Runtime
from kompat.coordination.shards import Partitions, partition_for
from kompat.errors import ErrorCode, KafkaError, StorageError
from kompat.log.commit import Fsync, GroupCommit
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.log.storage.memory import MemoryStore
from kompat.rpc.messages import Coordinator
from kompat.rpc.router import Router
from kompat.types import LogId, Millis, NodeId, Offset

LOG_ID = LogId(UUID(int=7), 0)


class Disk(MemoryStore):
    is_full = False
    is_broken = False  # takes writes, but cannot force them onto the medium
    is_dead = False
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
        if self.is_dead:
            self._staged.clear()
            return
        if self.is_full:
            self._staged.clear()
            raise StorageError("no space left")
        super().flush()

    def crash(self) -> Disk:
        """What the next process finds: nothing that is staged, nor anything that the dead one would still write."""
        self.is_dead, self.is_broken = True, False
        found = Disk()
        found._logs = self._logs
        return found


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


class FixedTopic:
    """An internal topic that is there."""

    def __init__(self, name: str, partitions: Sequence[Partition]) -> None:
        self.name = name
        self.partitions = partitions

    def existing(self) -> Partitions:
        return self.partitions

    async def ensure(self) -> Partitions:
        return self.partitions

    def log_ids(self) -> Sequence[LogId]:
        return [partition.log_id for partition in self.partitions]


class LocalDirectory:
    """Of a broker that is alone, and has these internal topics."""

    brokers: Collection[NodeId] = (NodeId(1),)
    controller = NodeId(1)
    is_controller = True
    metadata_end = metadata_read = Offset(0)

    def __init__(self, logs: Logs, *topics: FixedTopic) -> None:
        self._logs = logs
        self._topics = {topic.name: topic for topic in topics}

    def leader(self, log_id: LogId) -> NodeId | None:
        return None

    def led(self, log_id: LogId) -> Partition | None:
        found = self._logs.find_by_id(log_id.topic_id, log_id.partition)
        return found if found is not None and found.is_led else None

    async def coordinated(self, coordinator: Coordinator) -> LogId:
        log_ids = self._topics[coordinator.topic].log_ids()
        return log_ids[partition_for(coordinator.key, len(log_ids))]

    async def read_metadata(self, end: Offset, seconds: float) -> bool:
        return True


def local_router(logs: Logs, *topics: FixedTopic) -> Router:
    return Router(NodeId(1), LocalDirectory(logs, *topics))


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
