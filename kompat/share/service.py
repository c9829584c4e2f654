"""Share groups: fetch, acknowledge, release, and the offsets where groups start.

The leader of a log loads its share partition on first use: the state comes from the coordinator, which leads the
partition of `__share_group_state` that the key belongs to. Which member holds which record is known in this process only.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol
from uuid import UUID

from kompat.clock import Clock
from kompat.common.promise import Promise
from kompat.errors import ErrorCode, KafkaError, kafka_error
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.rpc.messages import LeaderRequest
from kompat.rpc.router import Router
from kompat.share.coordinator import ShareCoordinator
from kompat.share.events import SILENT, ShareEvents
from kompat.share.fetching import DelayedShareFetch
from kompat.share.machine.messages import AckBatch, Dead
from kompat.share.machine.order import ByOffset, Order
from kompat.share.machine.passed import MOST_RUNS_UNUSED, Passed
from kompat.share.machine.settings import ShareSettings
from kompat.share.machine.state import Fence
from kompat.share.offset_reset import initial_offset
from kompat.share.offsets import FenceSharePartition, ShareOffsets
from kompat.share.partition import SharePartition
from kompat.share.persister import Persister
from kompat.share.records import UNINITIALIZED, ShareKey
from kompat.share.requests import Acknowledged, FetchRequest
from kompat.share.sessions import ShareSession, ShareSessions
from kompat.share.state_writer import StateWriter
from kompat.types import LogId

logger = logging.getLogger(__name__)

MOST_SETTINGS = 10_000  # groups whose settings are cached
MOST_PASSED = 1_000  # share partitions that are not in use, for which it is kept how their last records ended
MOST_LIVE = 1_000  # share partitions in memory, before unused ones are removed
RESUME_SECONDS = 5.0  # between two searches for dead-letter records that are still to be written


class DeadLetters(Protocol):
    """Writes rejected records to their dead-letter topics."""

    written: int  # records, since the start

    async def write_dead_letters(self, live: SharePartition, dead: Sequence[Dead]) -> None:
        """Write the dead-letter records, then `finish` the records."""
        ...


class LoadSharePartition(LeaderRequest[None], frozen=True):
    """It has dead-letter records to write, and loading it starts that."""

    patience: ClassVar[float] = 0.0  # it is sent again anyway

    group_id: str


class ShareService:
    def __init__(
        self,
        coordinator: ShareCoordinator,
        persister: Persister,
        rpc: Router,
        *,
        logs: Logs,
        settings: Callable[[str], ShareSettings],
        clock: Clock,
        max_sessions: int = 2_000,
        order_of: Callable[[Partition], Order] | None = None,
        dead_letters: DeadLetters | None = None,
        events: ShareEvents = SILENT,
    ) -> None:
        self.coordinator = coordinator  # of the states on this broker
        self.persister = persister
        self._rpc = rpc
        self._logs = logs
        self._read_settings = settings
        self._settings: dict[str, ShareSettings] = {}
        self._clock = clock
        by_offset = ByOffset()
        self._order_of = order_of or (lambda _: by_offset)
        self._dead_letters = dead_letters
        self._events = events
        self._live: dict[ShareKey, SharePartition] = {}
        self._most_live = MOST_LIVE
        self._passed: dict[ShareKey, tuple[int, int, Passed]] = {}  # of unused ones, with their epochs
        self._loading: dict[ShareKey, Promise[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.sessions = ShareSessions(max_sessions)
        self.offsets = ShareOffsets(persister, logs, rpc)
        rpc.serve(FenceSharePartition, self._fence_one)
        rpc.serve(LoadSharePartition, self._load_one)

    def start(self) -> None:
        """Resume what was in progress, while clients are served already."""
        if self._dead_letters is not None:
            self._spawn(self._resume_dead_letters())

    def leader_changed(self, partition: Partition) -> None:
        """The leader or the leader epoch of a log has changed: the locks given by this broker are no longer valid."""
        if self._live:
            place = partition.log_id.topic_id, partition.index
            self.fence([key for key in self._live if (key.topic_id, key.partition) == place])

    async def close(self) -> None:
        for live in self._live.values():
            live.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.coordinator.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("work on share groups failed", exc_info=task.exception())

    @property
    def dead_letters_written(self) -> int:
        return self._dead_letters.written if self._dead_letters is not None else 0

    @property
    def live(self) -> Collection[SharePartition]:
        """The share partitions in use on this broker."""
        return self._live.values()

    # -- what happens around them ----------------------------------------------------------------------------------
    def settings_changed(self) -> None:
        self._settings.clear()

    def settings_of(self, group_id: str) -> ShareSettings:
        known = self._settings.get(group_id)
        if known is None:
            if len(self._settings) >= MOST_SETTINGS:  # clients may name any group
                self._settings.clear()
            known = self._settings[group_id] = self._read_settings(group_id)
        return known

    def topics_deleted(self, topic_ids: Iterable[UUID]) -> None:
        gone = set(topic_ids)
        for key in [key for key in self._live if key.topic_id in gone]:
            self._live[key].fence()
        self._spawn(self.coordinator.delete_topics(gone))

    def disconnected(self, connection_id: str) -> None:
        """Release the records of a client's members when its connection closes."""
        for session in self.sessions.disconnected(connection_id):
            self._let_go(session)

    # -- what members do -------------------------------------------------------------------------------------------
    def fetch(self, request: FetchRequest) -> DelayedShareFetch:
        """Acquire records for a member, at once or as soon as some are available."""
        return DelayedShareFetch(self, request, self._spawn).start()

    def acknowledge(
        self, group_id: str, member_id: str, batches: Mapping[LogId, Sequence[AckBatch]]
    ) -> list[Acknowledged]:
        """Each partition succeeds or fails on its own, with all of its batches."""
        return [
            Acknowledged(partition, self._acknowledge(ShareKey(group_id, *partition), member_id, each))
            for partition, each in batches.items()
        ]

    def _acknowledge(self, key: ShareKey, member_id: str, batches: Sequence[AckBatch]) -> Promise[None]:
        live = self._live.get(key)
        if live is None:
            # No member has fetched from it since this broker started, or it was loaded again: nothing is acquired.
            return Promise.failed(KafkaError(ErrorCode.INVALID_RECORD_STATE, "no record of the partition is acquired"))
        return live.acknowledge(member_id, batches)

    def close_session(self, group_id: str, member_id: str) -> None:
        """The member leaves the group: release its records."""
        session = self.sessions.close(group_id, member_id)
        if session is not None:
            self._let_go(session)

    def release(self, group_id: str, member_id: str) -> None:
        """Release all records that a member holds, in all partitions."""
        for live in [live for key, live in self._live.items() if key.group_id == group_id]:
            live.release(member_id)

    def _let_go(self, session: ShareSession) -> None:
        for partition in session.partitions:
            live = self._live.get(ShareKey(session.group_id, *partition))
            if live is not None:
                live.release(session.member_id).add_done_callback(partial(self._retire, live))

    def _retire(self, live: SharePartition, _: Promise[None]) -> None:
        """Free the memory of share partitions whose group has no members."""
        if live.is_idle and not live.is_fenced and not self.sessions.has_members(live.key.group_id):
            self._remember(live)
            live.fence()

    # -- share partitions ------------------------------------------------------------------------------------------
    def find(self, group_id: str, partition: LogId, begin: str | None = None) -> SharePartition | KafkaError | None:
        """None while it is being loaded. `begin`: the start offset of a new group; else its settings decide."""
        key = ShareKey(group_id, *partition)
        live = self._live.get(key)
        if live is not None:
            return live
        log = self._logs.find_by_id(*partition)
        if log is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "this broker has no replica of the partition")
        if not log.is_led:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if key not in self._loading:
            self._loading[key] = Promise()
            self._spawn(self._load(key, log, begin))
        return None

    def loading(self, group_id: str, partition: LogId) -> Promise[None]:
        """The promise that a share partition is loaded."""
        return self._loading[ShareKey(group_id, *partition)]

    async def use(self, group_id: str, partition: LogId, begin: str | None = None) -> SharePartition:
        """A share partition, loaded if necessary. Raises KafkaError."""
        while (found := self.find(group_id, partition, begin)) is None:
            await self.loading(group_id, partition)
        if isinstance(found, KafkaError):
            raise found
        return found

    async def use_known(self, group_id: str, partition: LogId) -> SharePartition:
        """As `use`, but only for a group that exists: an acknowledgement must not create one."""
        key = ShareKey(group_id, *partition)
        if key not in self._live and (await self.persister.summary(key)).start_offset == UNINITIALIZED:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"group {group_id} was given nothing of the partition")
        return await self.use(group_id, partition)

    def retire(self, group_id: str, partitions: Iterable[LogId]) -> None:
        """Free the memory of share partitions that are not in use."""
        for partition in partitions:
            live = self._live.get(ShareKey(group_id, *partition))
            if live is not None:
                self._retire(live, Promise.resolved(None))

    def _make_room(self) -> None:
        """Clients without a session never leave, so unused share partitions must be limited."""
        if len(self._live) >= self._most_live:
            for live in list(self._live.values()):
                self._retire(live, Promise.resolved(None))
            self._most_live = max(MOST_LIVE, 2 * len(self._live))

    async def _load(self, key: ShareKey, log: Partition, begin: str | None) -> None:
        error: KafkaError | None = None
        try:
            live = await self._take_up(key, log, begin)
            self._make_room()
            self._live[key] = live
        except KafkaError as failure:
            error = failure
        except Exception as failure:  # every waiter gets the error, whichever it is
            logger.exception("%s cannot be loaded", key)
            error = kafka_error(failure)
        finally:
            loading = self._loading.pop(key)
        loading.end(error)

    async def _take_up(self, key: ShareKey, log: Partition, begin: str | None) -> SharePartition:
        epoch, writer = log.leader_epoch, secrets.token_hex(8)
        start = await initial_offset(log, begin or self.settings_of(key.group_id).offset_reset, self._clock.now())
        stored = await self.persister.read(key, start, epoch, writer)
        if not log.is_led or log.leader_epoch != epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        live = SharePartition(
            key,
            stored,
            log=log,
            writer=StateWriter(
                key,
                Fence(epoch, stored.state_epoch),
                writer,
                coordinator=self.coordinator,
                persister=self.persister,
                spawn=self._spawn,
            ),
            order=self._order_of(log),
            settings=lambda: self.settings_of(key.group_id),
            clock=self._clock,
            spawn=self._spawn,
            on_dead=self._write_dead_letters,
            on_fenced=self._dropped,
            events=self._events,
            passed=self._still_known(key, stored.state_epoch, epoch),
        )
        dead = live.machine.archiving(live.settings)
        if dead:
            self._write_dead_letters(live, dead)
        return live

    def fence(self, keys: Iterable[ShareKey]) -> None:
        """Fence share partitions whose state was changed by others, or has moved to another broker."""
        for key in keys:
            live = self._live.get(key)
            if live is not None:
                live.fence()

    async def _fence_one(self, log: Partition, request: FenceSharePartition) -> None:
        self.fence([ShareKey(request.group_id, log.log_id.topic_id, log.index)])

    def _dropped(self, live: SharePartition) -> None:
        if self._live.get(live.key) is live:
            del self._live[live.key]

    def _remember(self, live: SharePartition) -> None:
        """Keep how the last records ended, for late acknowledgements."""
        live.machine.passed.shrink(MOST_RUNS_UNUSED)
        self._passed[live.key] = live.state_epoch, live.log.leader_epoch, live.machine.passed
        if len(self._passed) > MOST_PASSED:
            del self._passed[next(iter(self._passed))]

    def _still_known(self, key: ShareKey, state_epoch: int, leader_epoch: int) -> Passed | None:
        """Not for a group that was reset, or whose partition another broker has led: it may get the same records again."""
        *epochs, passed = self._passed.pop(key, (None, None, None))
        return passed if epochs == [state_epoch, leader_epoch] else None

    # -- dead letters ----------------------------------------------------------------------------------------------
    def _write_dead_letters(self, live: SharePartition, dead: Sequence[Dead]) -> None:
        if self._dead_letters is not None:
            self._spawn(self._dead_letters.write_dead_letters(live, dead))

    async def _resume_dead_letters(self) -> None:
        """Resume writing dead-letter records that were not written when a broker ended, by loading their share partition.

        The coordinator of the state knows of them, and the leader of the log writes them. Either may change at any time, so
        this is repeated for ever.
        """
        while True:
            try:
                for key in await self.coordinator.archiving():
                    await self._resume(key)
            except KafkaError as error:
                logger.warning("dead-letter records that are due are looked for later: %s", error)
            await asyncio.sleep(RESUME_SECONDS)

    async def _resume(self, key: ShareKey) -> None:
        try:
            await self._rpc.call(LogId(key.topic_id, key.partition), LoadSharePartition(key.group_id))
        except KafkaError as error:
            logger.info("dead-letter records of %s are written later: %s", key, error)

    async def _load_one(self, log: Partition, request: LoadSharePartition) -> None:
        self.find(request.group_id, log.log_id)
