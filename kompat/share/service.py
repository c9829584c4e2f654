"""Share groups for everybody: fetch, acknowledge, let go, and the offsets where groups begin.

A share partition is loaded when it is first used, by the broker that leads its log: its state comes from the partition of
`__share_group_state` that its key belongs to, wherever that is led. What members hold is known in this process only.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from kompat.clock import Clock
from kompat.coordination.runtime import Runtime
from kompat.coordination.shards import Partitions, Shards
from kompat.errors import ErrorCode, KafkaError
from kompat.log.commit import Pending
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.share.events import SILENT, ShareEvents
from kompat.share.fetching import Fetching
from kompat.share.home import Home
from kompat.share.homes import Elsewhere, Homes, Keeper
from kompat.share.live import LivePartition
from kompat.share.machine.messages import AckBatch, Dead
from kompat.share.machine.order import ByOffset, Order
from kompat.share.machine.passed import MOST_RUNS_UNUSED, Passed
from kompat.share.machine.settings import ShareSettings
from kompat.share.machine.state import Fence, ShareStateMachine
from kompat.share.offset_reset import initial_offset
from kompat.share.offsets import ShareOffsets
from kompat.share.records import UNINITIALIZED, ShareCodec, ShareKey
from kompat.share.requests import Acknowledged, FetchRequest, TopicIdPartition
from kompat.share.sessions import ShareSession, ShareSessions

logger = logging.getLogger(__name__)

MOST_SETTINGS = 10_000  # of groups, remembered
MOST_PASSED = 1_000  # share partitions that nobody uses, and of whose last records it is known how they ended
MOST_LIVE = 1_000  # share partitions in memory before those are looked for that nobody uses
RESUME_SECONDS = 5.0  # between two looks for dead letters that nobody writes, where there are several brokers

Loaded = Callable[[KafkaError | None], None]


class DeadLetters(Protocol):
    """Who writes the records that were given up to their dead-letter topics."""

    written: int  # letters, since the start

    async def bury(self, live: LivePartition, dead: Sequence[Dead]) -> None:
        """Write their letters, and `finish` them in the same turn of the event loop."""
        ...


class ShareService:
    def __init__(
        self,
        existing: Callable[[], Partitions],
        ensure: Callable[[], Awaitable[Partitions]],
        *,
        logs: Logs,
        settings: Callable[[str], ShareSettings],
        clock: Clock,
        max_sessions: int = 2_000,
        updates_per_snapshot: int = 500,
        order_of: Callable[[Partition], Order] | None = None,
        dead_letters: DeadLetters | None = None,
        events: ShareEvents = SILENT,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """`elsewhere`: the other brokers, where there are any."""
        self._logs = logs
        self._read_settings = settings
        self._settings: dict[str, ShareSettings] = {}
        self._clock = clock
        self._updates_per_snapshot = updates_per_snapshot
        by_offset = ByOffset()
        self._order_of = order_of or (lambda _: by_offset)
        self._dead_letters = dead_letters
        self._events = events
        self._shards = Shards(self._runtime, existing, ensure)
        self.homes = Homes(self._shards, clock, elsewhere)
        self._live: dict[ShareKey, LivePartition] = {}
        self._most_live = MOST_LIVE
        self._passed: dict[ShareKey, tuple[int, int, Passed]] = {}  # of those that nobody uses, with their epochs
        self._loading: dict[ShareKey, list[Loaded]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.sessions = ShareSessions(max_sessions)
        self.offsets = ShareOffsets(self.homes, logs, self.fence)

    def _runtime(self, partition: Partition) -> Keeper:
        return Runtime(
            lambda: ShareStateMachine(self._updates_per_snapshot),
            ShareCodec(),
            partition,
            clock=self._clock,
            store=partition.store,
            is_leading=partition.is_led,
        )

    def start(self) -> None:
        """Take up what was under way, while clients are served already."""
        if self._dead_letters is not None:
            self._spawn(self._resume_dead_letters())

    def leading(self, partition: Partition) -> None:
        """This broker keeps the states of a partition of `__share_group_state` from now on."""
        self._shards.lead(partition)

    def following(self, partition: Partition) -> None:
        """It does not any more."""
        self._shards.resign(partition)

    def leader_changed(self, partition: Partition) -> None:
        """Who leads a log, and in which epoch, is another than before: what was given out here counts no more."""
        if self._live:
            place = partition.log_id.topic_id, partition.index
            self.fence([key for key in self._live if (key.topic_id, key.partition) == place])

    async def close(self) -> None:
        for live in self._live.values():
            live.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._shards.close()

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
    def live(self) -> Collection[LivePartition]:
        """The share partitions that are in use on this broker."""
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
        self._spawn(self.homes.forget_topics(gone))

    def disconnected(self, connection_id: str) -> None:
        """A client is gone, and with it what its members held."""
        for session in self.sessions.disconnected(connection_id):
            self._let_go(session)

    # -- what members do -------------------------------------------------------------------------------------------
    def fetch(self, request: FetchRequest) -> Fetching:
        """Records for a member, at once or as soon as there are some."""
        return Fetching(self, request, self._spawn).start()

    def acknowledge(
        self, group_id: str, member_id: str, batches: Mapping[TopicIdPartition, Sequence[AckBatch]]
    ) -> list[Acknowledged]:
        """Each partition is judged by itself, all of its batches together."""
        return [
            Acknowledged(partition, self._acknowledge(ShareKey(group_id, *partition), member_id, each))
            for partition, each in batches.items()
        ]

    def _acknowledge(self, key: ShareKey, member_id: str, batches: Sequence[AckBatch]) -> Pending:
        live = self._live.get(key)
        if live is None:
            # It was not fetched from since this broker began, or it has been loaded anew: nothing is held.
            promise = Pending()
            promise.resolve(KafkaError(ErrorCode.INVALID_RECORD_STATE, "no record of the partition is acquired"))
            return promise
        return live.acknowledge(member_id, batches)

    def close_session(self, group_id: str, member_id: str) -> None:
        """The member leaves: what it holds is for others."""
        session = self.sessions.close(group_id, member_id)
        if session is not None:
            self._let_go(session)

    def release(self, group_id: str, member_id: str) -> None:
        """Let go of all that a member holds, wherever it holds it."""
        for live in [live for key, live in self._live.items() if key.group_id == group_id]:
            live.release(member_id)

    def _let_go(self, session: ShareSession) -> None:
        for partition in session.partitions:
            live = self._live.get(ShareKey(session.group_id, *partition))
            if live is not None:
                live.release(session.member_id).add_done_callback(partial(self._retire, live))

    def _retire(self, live: LivePartition, _: Pending) -> None:
        """Let it take no room while its group has no members."""
        if live.is_idle and not live.is_fenced and not self.sessions.has_members(live.key.group_id):
            self._remember(live)
            live.fence()

    # -- share partitions ------------------------------------------------------------------------------------------
    def find(
        self, group_id: str, partition: TopicIdPartition, begin: str | None = None
    ) -> LivePartition | KafkaError | None:
        """For Fetching: None while it is being loaded. `begin`: where, if the group has not yet; else as its settings say."""
        key = ShareKey(group_id, *partition)
        live = self._live.get(key)
        if live is not None:
            return live
        log = self._logs.find_by_id(*partition)
        if log is None and self.homes.elsewhere is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if log is None or not log.is_led:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if key not in self._loading:
            self._loading[key] = []
            self._spawn(self._load(key, log, begin))
        return None

    def when_loaded(self, group_id: str, partition: TopicIdPartition, told: Loaded) -> None:
        self._loading[ShareKey(group_id, *partition)].append(told)

    async def use(self, group_id: str, partition: TopicIdPartition, begin: str | None = None) -> LivePartition:
        """A share partition, loaded if it is not yet. Raises KafkaError."""
        while (found := self.find(group_id, partition, begin)) is None:
            loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.when_loaded(group_id, partition, partial(_tell, loaded))
            await loaded
        if isinstance(found, KafkaError):
            raise found
        return found

    async def use_known(self, group_id: str, partition: TopicIdPartition) -> LivePartition:
        """As `use`, of a group that has begun: nobody makes a group by a word about what was never given to it."""
        key = ShareKey(group_id, *partition)
        if key not in self._live and (await self.homes.summary(key)).start_offset == UNINITIALIZED:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"group {group_id} was given nothing of the partition")
        return await self.use(group_id, partition)

    def retire(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """Let those take no room that nobody uses."""
        for partition in partitions:
            live = self._live.get(ShareKey(group_id, *partition))
            if live is not None:
                self._retire(live, Pending.done())

    def _make_room(self) -> None:
        """Those who come without a session never say that they are gone: what nobody uses must not add up."""
        if len(self._live) >= self._most_live:
            for live in list(self._live.values()):
                self._retire(live, Pending.done())
            self._most_live = max(MOST_LIVE, 2 * len(self._live))

    async def _load(self, key: ShareKey, log: Partition, begin: str | None) -> None:
        error: KafkaError | None = None
        try:
            live = await self._take_up(key, log, begin)
            self._make_room()
            self._live[key] = live
        except KafkaError as failure:
            error = failure
        except Exception as failure:  # whoever waits hears of it, whatever it is
            logger.exception("%s cannot be loaded", key)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(failure).__name__}: {failure}")
        finally:
            waiting = self._loading.pop(key)
        for told in waiting:
            told(error)

    async def _take_up(self, key: ShareKey, log: Partition, begin: str | None) -> LivePartition:
        epoch, writer = log.leader_epoch, secrets.token_hex(8)
        place = await self.homes.place_of(key)
        start = await initial_offset(log, begin or self.settings_of(key.group_id).offset_reset, self._clock.now())
        stored = await self.homes.begin(place, key, start, epoch, writer)
        if not log.is_led or log.leader_epoch != epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        live = LivePartition(
            key,
            stored,
            log=log,
            home=Home(self.homes, place, key, Fence(epoch, stored.state_epoch), writer, self._spawn),
            order=self._order_of(log),
            settings=lambda: self.settings_of(key.group_id),
            clock=self._clock,
            spawn=self._spawn,
            on_dead=self._bury,
            on_fenced=self._dropped,
            events=self._events,
            passed=self._still_known(key, stored.state_epoch, epoch),
        )
        dead = live.machine.archiving(live.settings)
        if dead:
            self._bury(live, dead)
        return live

    def fence(self, keys: Iterable[ShareKey]) -> None:
        """Their state was changed behind their backs, or is another broker's to change."""
        for key in keys:
            live = self._live.get(key)
            if live is not None:
                live.fence()

    def _dropped(self, live: LivePartition) -> None:
        if self._live.get(live.key) is live:
            del self._live[live.key]

    def _remember(self, live: LivePartition) -> None:
        """How its last records ended, for whoever says something of them late."""
        live.machine.passed.shrink(MOST_RUNS_UNUSED)
        self._passed[live.key] = live.state_epoch, live.log.leader_epoch, live.machine.passed
        if len(self._passed) > MOST_PASSED:
            del self._passed[next(iter(self._passed))]

    def _still_known(self, key: ShareKey, state_epoch: int, leader_epoch: int) -> Passed | None:
        """A group that has begun anew may be given the same records again; so may one that another broker has led."""
        *epochs, passed = self._passed.pop(key, (None, None, None))
        return passed if epochs == [state_epoch, leader_epoch] else None

    # -- dead letters ----------------------------------------------------------------------------------------------
    def _bury(self, live: LivePartition, dead: Sequence[Dead]) -> None:
        if self._dead_letters is not None:
            self._spawn(self._dead_letters.bury(live, dead))

    async def _resume_dead_letters(self) -> None:
        """Records whose letters were not written when a broker ended: loading their partition takes them up.

        Of several brokers the one that keeps the state knows of them, and the one that leads the log writes them. Either may
        change at any time, so it is looked again and again.
        """
        while True:
            try:
                for key in await self.homes.archiving():
                    await self._resume(key)
            except KafkaError as error:
                logger.warning("dead letters that are due are looked for later: %s", error)
            if self.homes.elsewhere is None:
                return
            await asyncio.sleep(RESUME_SECONDS)

    async def _resume(self, key: ShareKey) -> None:
        partition = TopicIdPartition(key.topic_id, key.partition)
        log = self._logs.find_by_id(*partition)
        if self.homes.elsewhere is None or (log is not None and log.is_led):
            self.find(key.group_id, partition)
        else:
            await self.homes.elsewhere.ask_leader(partition, "resume", [key.group_id])


def _tell(loaded: asyncio.Future[None], error: KafkaError | None) -> None:
    if not loaded.done():
        if error is None:
            loaded.set_result(None)
        else:
            loaded.set_exception(error)
