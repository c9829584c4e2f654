"""All logs of a broker: finding them, opening and dropping them, and the upkeep that none of them does by itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from kompat.clock import Clock
from kompat.common.meters import Meters, TopicMeter
from kompat.common.promise import Promise
from kompat.config.topic import TopicConfig
from kompat.errors import DamagedData, ErrorCode, KafkaError, StorageError
from kompat.log.cache import TailCache
from kompat.log.cleaner import Cleaner, CleanerSettings
from kompat.log.commit import GroupCommit
from kompat.log.damage_report import DamageReport
from kompat.log.partition import Partition
from kompat.log.read_ahead import ReadAhead
from kompat.log.scrubbing import Scrubber, ScrubSettings
from kompat.log.storage.store import LogStore
from kompat.types import LogId, Millis

logger = logging.getLogger(__name__)

AT_A_TIME = 100  # partitions looked at before others get their turn
DROPPED_AT_A_TIME = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The broker's settings that the logs read; each is named in its comment."""

    cache_bytes: int = 128 * 1024 * 1024  # kompat.cache.bytes
    retention_check_interval_ms: int = 300_000  # log.retention.check.interval.ms
    producer_id_expiration_ms: int = 86_400_000  # producer.id.expiration.ms
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)
    scrub: ScrubSettings = field(default_factory=ScrubSettings)


class Logs:
    def __init__(
        self,
        store: LogStore,
        commit: GroupCommit,
        clock: Clock,
        settings: LogSettings | None = None,
        meters: Meters | None = None,
    ) -> None:
        self._store = store
        self._commit = commit
        self._clock = clock
        self._settings = settings or LogSettings()
        self._meters = meters or Meters()
        self._cache = TailCache(self._settings.cache_bytes)
        self._read_ahead = ReadAhead()
        self.damages = DamageReport(clock.monotonic)
        self._cleaner = Cleaner(self._settings.cleaner)
        self.scrubber = Scrubber(self._settings.scrub, lambda: [*self._private, *self._by_id.values()])
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[UUID, int], Partition] = {}
        self._private: list[Partition] = []
        self._doomed: list[LogId] = []  # forgotten, not yet removed from the store
        self._dropping: asyncio.Future[None] | None = None
        self._extend: Callable[[Partition], None] = lambda _: None
        self._tasks: list[asyncio.Task[None]] = []

    # -- finding ---------------------------------------------------------------------------------------------------
    def find(self, topic: str, index: int) -> Partition | None:
        return self._by_name.get((topic, index))

    def find_by_id(self, topic_id: UUID, index: int) -> Partition | None:
        return self._by_id.get((topic_id, index))

    def all(self) -> Iterable[Partition]:
        return self._by_id.values()

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def store(self) -> LogStore:
        return self._store

    @property
    def cached_bytes(self) -> int:
        return self._cache.size

    # -- opening and dropping --------------------------------------------------------------------------------------
    def extend(self, extend: Callable[[Partition], None]) -> None:
        """Call `extend` with every partition that is opened from now on, except private ones, to set its interceptor."""
        self._extend = extend

    def open(
        self, log_id: LogId, topic: str, index: int, config: TopicConfig, *, is_internal: bool = False
    ) -> Partition:
        """The partition, recovered from the store; empty where the store has nothing of it."""
        known = self._by_id.get((log_id.topic_id, log_id.partition))
        if known is not None:
            return known
        meter = self._meters.topic(topic, is_internal=is_internal)
        partition = self._recover(log_id, topic, index, config, meter, is_internal=is_internal)
        self._by_id[log_id.topic_id, log_id.partition] = partition
        self._by_name[topic, index] = partition
        self._extend(partition)
        return partition

    def open_private(self, log_id: LogId, topic: str, index: int, config: TopicConfig) -> Partition:
        """A log of the broker's own, that no client finds; it is kept up like the others.

        It lists the logs that exist, so it must not lose what they keep.
        """
        partition = self._recover(log_id, topic, index, config, self._meters.private(topic), is_internal=True)
        partition.store.keep_inline()
        partition.store.is_vital = True  # a topic can be deleted on a full disk
        self._private.append(partition)
        return partition

    def _recover(
        self, log_id: LogId, topic: str, index: int, config: TopicConfig, meter: TopicMeter, *, is_internal: bool
    ) -> Partition:
        return Partition(
            log_id,
            topic,
            index,
            store=self._store.open(log_id),
            commit=self._commit,
            config=config,
            clock=self._clock,
            cache=self._cache,
            read_ahead=self._read_ahead,
            damages=self.damages,
            meter=meter,
            is_internal=is_internal,
        )

    def drop(self, log_id: LogId) -> Promise[None]:
        """Remove a log and give its space back; done when that is written."""
        self._forget(log_id)
        self._store.drop(log_id)
        return self._commit.turn()

    def drop_soon(self, logs: Iterable[LogId]) -> None:
        """As `drop`, for many: they cannot be found any more, and are removed a few at a time. A crash leaves some of them in
        the store: they are dropped at the next start, when it is known which logs should exist."""
        for log_id in logs:
            self._forget(log_id)
            self._doomed.append(log_id)
        if self._dropping is None or self._dropping.done():
            self._dropping = asyncio.ensure_future(self._drop_doomed())

    def _forget(self, log_id: LogId) -> None:
        partition = self._by_id.pop((log_id.topic_id, log_id.partition), None)
        if partition is not None:
            name = (partition.topic, partition.index)
            if self._by_name.get(name) is partition:  # a topic may have been created again under its name
                del self._by_name[name]
            self._meters.leave(partition.topic, partition.meter)
            partition.drop()

    async def _drop_doomed(self) -> None:
        while self._doomed:
            few = self._doomed[:DROPPED_AT_A_TIME]
            del self._doomed[:DROPPED_AT_A_TIME]
            try:
                for log_id in few:
                    self._store.drop(log_id)
                await self._commit.turn()
            except (KafkaError, StorageError) as error:
                logger.warning("the space of deleted topics is given back with the next start: %s", error)

    def require_room(self) -> None:
        """For what would need more of the disk: refused while there is too little of it."""
        try:
            self._store.require_room()
        except StorageError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def stored(self) -> Iterable[LogId]:
        """Every log that the store holds something of, open or not."""
        return self._store.logs()

    def reload_failed(self) -> None:
        """A turn could not be written: the partitions in it go back to what is stored. For GroupCommit's `on_failed`."""
        for partition in (*self._private, *self._by_id.values()):
            if partition.is_staged:
                try:
                    partition.reload()
                except (DamagedData, StorageError):  # of one partition: the others must not go on with what was refused
                    logger.exception("%s could not be read back after the disk refused a write", partition)

    def configure(self, settings: LogSettings) -> None:
        """Take other settings, while running."""
        self._settings = settings
        self._cache.resize(settings.cache_bytes)
        self._cleaner.configure(settings.cleaner)
        self.scrubber.settings = settings.scrub

    # -- upkeep ----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Keep the logs up in the background, until `close`."""
        self._tasks = [
            asyncio.create_task(self._every(lambda: self._settings.retention_check_interval_ms, self.maintain)),
            asyncio.create_task(self._every(lambda: self._settings.cleaner.backoff_ms, self.clean)),
            asyncio.create_task(self.scrubber.run()),
        ]

    async def _every(self, interval_ms: Callable[[], int], work: Callable[[Millis], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms() / 1000)
            try:
                await work(self._clock.now())
            except Exception:
                logger.exception("the upkeep of the logs failed; it goes on with the next round")

    async def maintain(self, now: Millis) -> None:
        """Retention and producers' expiry, a few partitions at a time."""
        for count, partition in enumerate([*self._private, *self._by_id.values()], 1):
            if not partition.is_dropped:
                self._keep_up(partition, now)
            if count % AT_A_TIME == 0:
                await asyncio.sleep(0)

    def _keep_up(self, partition: Partition, now: Millis) -> None:
        try:
            partition.upkeep.enforce_retention(now)
        except (DamagedData, StorageError):  # of one partition: the others' space must not fill up because of it
            logger.exception("retention of %s failed; it is tried again with the next round", partition)
        partition.upkeep.expire_producers(now, self._settings.producer_id_expiration_ms)

    async def clean(self, now: Millis) -> None:
        """Compact what is due."""
        await self._cleaner.clean_all(list(self._by_id.values()), now)

    async def close(self) -> None:
        """Stop the upkeep and leave a checkpoint of every log; the commit and the store are closed by their owner."""
        for task in self._tasks:
            task.cancel()
        self._cleaner.close()
        if self._dropping is not None:
            await self._dropping
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        written = False
        for partition in (*self._private, *self._by_id.values()):
            written |= partition.close()
        if written:
            await self._commit.turn()
