"""The composition root: the only place that builds everything, and takes it down in reverse."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from kompat import __version__
from kompat.admin.door import Door
from kompat.clock import Clock, SystemClock
from kompat.cluster.authorizer import Authorizer
from kompat.cluster.calls import Call
from kompat.cluster.client_quotas import ClientQuotas
from kompat.cluster.names import KOMPAT_TRACE, is_internal
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Address, ResourceType
from kompat.cluster.users import Users
from kompat.config.broker import BrokerConfig
from kompat.config.definitions import ConfigSource
from kompat.config.values import numbers_by_address
from kompat.coordinators import Coordinators
from kompat.errors import ConfigError, DamagedData, KafkaError, StorageError
from kompat.extensions.dead_letter_service import DeadLetterService
from kompat.extensions.end_offsets import EndOffsets
from kompat.extensions.queue_far import FarShares
from kompat.extensions.queue_topics import QueueTopics
from kompat.extensions.queues import QueueService
from kompat.extensions.service import Extensions
from kompat.handlers import APIS
from kompat.handlers.fetch_room import FetchRoom
from kompat.handlers.fetch_sessions import FetchSessions
from kompat.handlers.services import Services
from kompat.handlers.transactional_produce import Turns
from kompat.log.backups import Backups
from kompat.log.cleaning import CleanerSettings
from kompat.log.commit import GroupCommit
from kompat.log.manager import Logs, LogSettings
from kompat.meters import LoopLag, Meters
from kompat.server.dispatch import Dispatcher
from kompat.server.forwarding import Forwarded
from kompat.server.limits import Limits
from kompat.server.listener import Listener
from kompat.server.listeners import Listeners
from kompat.telemetry.service import Telemetry
from kompat.types import Millis, NodeId

if TYPE_CHECKING:
    from kompat.cluster.member import Member
    from kompat.extensions.tracing.service import TraceService
    from kompat.log.store import LogStore

log = logging.getLogger(__name__)

IN_MEMORY = ":memory:"
DRAIN_SECONDS = 3.0
SWITCH_SECONDS = 0.0005  # a worker thread that reads for one client keeps the interpreter from the others no longer
SESSION_EVICTION = Millis(120_000)  # Kafka's, where it is not a setting either
MAX_SESSION_ID = 2**31 - 1


class Unstartable(Exception):  # noqa: N818 - it is told to the operator as it is
    """The broker cannot start until somebody changes something: the message says what."""


class Broker:
    def __init__(self, config: BrokerConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._built = AsyncExitStack()  # what has to be taken down again
        self.meters = Meters()
        self.peer: Address | None = None  # where other brokers of its cluster find it
        self._listeners = Listeners(config, self._clock)
        self.http_scheme = "http"
        self.http = ""  # where its HTTP door is, as host:port; empty: it has none

    @property
    def endpoint(self) -> tuple[str, int]:
        """Of the first listener."""
        return next(iter(self.endpoints.values()))

    @property
    def endpoints(self) -> dict[str, tuple[str, int]]:
        """By the names of the listeners."""
        return self._listeners.addresses

    @property
    def address(self) -> str:
        """The first, and the others with their names."""
        first, *others = ((name, str(Address(*at))) for name, at in self.endpoints.items())
        return " ".join((first[1], *(f"{name}://{at}" for name, at in others)))

    async def start(self) -> None:
        """Serve clients. Where that fails, everything is as before."""
        try:
            self._listeners.prepare()
            self._built.callback(self._listeners.close)
            door = await self._bind_door()
            services = await self._build_services()
            member = services.cluster.member
            controller = member.controller if member is not None else None
            dispatcher = Dispatcher(APIS, services, controller, services.meters)
            if member is not None:
                member.controller.serve(Call.FORWARD, Forwarded(dispatcher).serve)
                member.peers.on_call[Call.REQUEST] = Forwarded(dispatcher).serve
            listener = Listener(dispatcher, limits(self._config), on_left=services.disconnected, quotas=services.quotas)
            services.fetch_room.unread = lambda: listener.unread
            self._count_connections(listener)
            self._built.callback(LoopLag(self.meters.loop_lag, asyncio.get_running_loop()).close)
            await self._listen(listener, services.users)
            # Before connections are drained: members may wait for their group longer than anybody waits for a stop.
            self._built.callback(services.groups.dismiss)
            if member is not None:
                # While clients are still served: none of them has to wait for another leader.
                self._built.push_async_callback(member.hand_over)
            door.serve(services, self.endpoint, listener.budget)
            self._built.push_async_callback(door.close)  # before all others: nothing is behind it any more
        except BaseException:
            await self.stop()
            raise
        log.info("ready", extra={"version": __version__, "kafka": self.address, "data": self._config.data})

    async def stop(self) -> None:
        """Finish what is under way, write everything, let go of the data directory."""
        await self._built.aclose()

    async def _bind_door(self) -> Door:
        door = Door(self._config)
        self._built.push_async_callback(door.close)  # where the start fails
        await door.bind()
        self.http, self.http_scheme = door.address, door.scheme
        return door

    async def _build_services(self) -> Services:
        config, clock = self._config, self._clock
        logs, commit = self._open_logs()
        extensions = Extensions(logs, clock, is_internal)
        self._built.callback(extensions.close)
        self.meters.fired, self.meters.released = lambda: extensions.delays.fired, lambda: extensions.lanes.released
        cluster = await self._start_cluster(logs, commit)
        member = cluster.member
        delays, lanes = extensions.join(cluster)
        logs.start()
        config.watch(lambda _: logs.configure(_log_settings(config)))
        coordinators = Coordinators(config, clock, cluster, logs, extensions.share_traces)
        self._built.push_async_callback(coordinators.close)
        coordinators.groups.events = extensions.commit_traces
        traces = self._trace(extensions, coordinators)
        coordinators.start()
        asking = member.asking if member is not None else None
        far = FarShares(coordinators.shares, logs, asking, coordinators.share_registry.adopt)
        await self._start_queues(QueueTopics(cluster, logs, coordinators.shares, far))
        extensions.follow_commits(coordinators.groups)
        extensions.start()
        return Services(
            config=config,
            clock=clock,
            cluster=cluster,
            logs=logs,
            groups=coordinators.groups,
            transactions=coordinators.transactions,
            shares=coordinators.shares,
            telemetry=_telemetry(clock, cluster),
            backups=self._backups(logs, cluster),
            delays=delays,
            ends=EndOffsets(logs, clock, asking),
            queues=QueueService(cluster, coordinators.shares, far),
            dead_letters=DeadLetterService(cluster, logs, clock, extensions.tracer, coordinators.courier),
            lanes=lanes,
            tracer=extensions.tracer,
            traces=traces,
            reads=extensions.reads,
            node_id=NodeId(config.node_id),
            version=__version__,
            fetch_sessions=_fetch_sessions(config),
            fetch_max_bytes=config["fetch.max.bytes"],
            fetch_room=FetchRoom(),
            produce_turns=Turns(),
            meters=self.meters,
            users=await self._start_users(cluster),
            authorizer=Authorizer(cluster, config),
            quotas=ClientQuotas(cluster, config, clock),
        )

    def _backups(self, logs: Logs, cluster: ClusterService) -> Backups:
        def facts() -> dict[str, Any]:
            return {
                "version": __version__,
                "node_id": self._config.node_id,
                "cluster_id": cluster.cluster_id,
                "created": self._clock.now(),
            }

        return Backups(logs.store, self._config["kompat.backup.dir"], facts)

    def _open_logs(self) -> tuple[Logs, GroupCommit]:
        config = self._config
        store = _store(config)
        self._built.callback(store.close)
        commit = GroupCommit(
            store,
            asyncio.get_running_loop(),
            fsync=config["kompat.fsync"],
            interval_ms=config["kompat.fsync.interval.ms"],
            on_failed=lambda: logs.reload_failed(),
            syncs=self.meters.syncs,
        )
        self._built.push_async_callback(commit.close)
        logs = Logs(store, commit, self._clock, _log_settings(config), self.meters)
        self._built.push_async_callback(_close_logs, logs)
        return logs, commit

    async def _start_cluster(self, logs: Logs, commit: GroupCommit) -> ClusterService:
        member = await self._join_cluster(commit) if is_clustered(self._config) else None
        cluster = ClusterService(self._config, self._clock, logs, member)
        self._built.push_async_callback(cluster.close)
        await cluster.start()
        return cluster

    async def _start_users(self, cluster: ClusterService) -> Users:
        users = Users(cluster)
        self._built.callback(users.close)
        await users.begin(self._config)
        return users

    async def _join_cluster(self, commit: GroupCommit) -> Member:
        from kompat.cluster.build import build  # what it imports a broker that is alone does not need

        await self._listeners.bind()  # the others have to be told which ports those are, before clients come
        kafka = {name: Address(*at) for name, at in self.endpoints.items()}
        member = await build(self._config, self._clock, commit, kafka, self._built)
        self.peer = member.broker.peer
        return member

    async def _start_queues(self, queue_topics: QueueTopics) -> None:
        self._built.push_async_callback(queue_topics.close)
        await queue_topics.start()

    def _trace(self, extensions: Extensions, coordinators: Coordinators) -> TraceService:
        traces = extensions.trace(*coordinators.internal(KOMPAT_TRACE))
        if self._config["kompat.otlp.endpoint"]:
            self._export_traces(extensions)
        self._built.push_async_callback(extensions.tracer.recorder.close)
        return traces

    def _export_traces(self, extensions: Extensions) -> None:
        from kompat.extensions.tracing.otlp import OtlpExport  # what it imports takes a while

        export = OtlpExport(self._config["kompat.otlp.endpoint"], node_id=self._config.node_id, version=__version__)
        export.start()
        extensions.tracer.recorder.observer = export.show
        self._built.push_async_callback(asyncio.to_thread, export.close)

    def _count_connections(self, listener: Listener) -> None:
        self.meters.connections = lambda: len(listener.connections)
        self.meters.connections_accepted = lambda: listener.accepted
        self.meters.bytes_under_way = lambda: listener.budget.used
        self.meters.refused_logins = lambda: dict(listener.strangers.refused)

    async def _listen(self, listener: Listener, users: Users) -> None:
        self._built.push_async_callback(listener.drain, DRAIN_SECONDS)
        await self._listeners.open(listener, users)
        self._config.watch(lambda _: listener.change_limits(limits(self._config)))


async def _close_logs(logs: Logs) -> None:
    try:
        await logs.close()
    except KafkaError as error:
        # What was acknowledged is written; only the next start takes longer.
        log.warning("the logs could not be closed in good order", extra={"reason": error})


def _telemetry(clock: Clock, cluster: ClusterService) -> Telemetry:
    def subscriptions() -> list[Mapping[str, str]]:
        found = cluster.image.configs.items()
        return [settings for resource, settings in found if resource.type is ResourceType.CLIENT_METRICS]

    return Telemetry(clock, subscriptions, lambda: cluster.metadata_offset)


def is_clustered(config: BrokerConfig) -> bool:
    return bool(config["kompat.cluster.members"])


def _store(config: BrokerConfig) -> LogStore:
    # Each imports what the other does not need.
    if config.data == IN_MEMORY:
        from kompat.log.memory import MemoryStore

        return MemoryStore()
    from kompat.log.rocks import RocksStore

    return RocksStore(config.data, reserve_bytes=config["kompat.disk.reserve.bytes"])


def _log_settings(config: BrokerConfig) -> LogSettings:
    return LogSettings(
        cache_bytes=config["kompat.cache.bytes"],
        retention_check_interval_ms=config["log.retention.check.interval.ms"],
        producer_id_expiration_ms=config["producer.id.expiration.ms"],
        cleaner=CleanerSettings(
            dedupe_buffer_size=config["log.cleaner.dedupe.buffer.size"],
            io_max_bytes_per_second=config["log.cleaner.io.max.bytes.per.second"],
            backoff_ms=config["log.cleaner.backoff.ms"],
            is_enabled=config["log.cleaner.enable"],
        ),
    )


def _fetch_sessions(config: BrokerConfig) -> FetchSessions:
    slots = config["max.incremental.fetch.session.cache.slots"]
    # A session's id is no secret: it saves bytes, and opens nothing that its owner could not open without it.
    return FetchSessions(slots, SESSION_EVICTION, lambda: random.randint(1, MAX_SESSION_ID))  # noqa: S311


def limits(config: BrokerConfig) -> Limits:
    """Kafka's settings of the same meaning. Where Kafka's default suits a thread per socket, only what was set counts."""
    given = {
        field: config[name]
        for field, name in (
            ("accept_backlog", "socket.listen.backlog.size"),
            ("receive_buffer_bytes", "socket.receive.buffer.bytes"),
            ("send_buffer_bytes", "socket.send.buffer.bytes"),
            ("total_bytes", "queued.max.request.bytes"),
        )
        if config.source(name) is not ConfigSource.DEFAULT_CONFIG and config[name] > 0
    }
    idle_ms = config["connections.max.idle.ms"]
    return Limits(
        request_bytes=config["socket.request.max.bytes"],
        connections=config["max.connections"],
        connections_per_ip=config["max.connections.per.ip"],
        connections_of_ip=numbers_by_address(config["max.connections.per.ip.overrides"]),
        idle_seconds=idle_ms / 1000 if idle_ms >= 0 else float("inf"),
        **given,
    )


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # where it is not built for the platform
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run_until_signal(config: BrokerConfig, ready: Callable[[Broker], None]) -> None:
    """Run a broker until SIGTERM or SIGINT."""
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run_until_signal(Broker(config), ready))


async def _run_until_signal(broker: Broker, ready: Callable[[Broker], None]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        is_up = await _unless(stopped, broker.start())
    except (ConfigError, DamagedData, KafkaError, OSError, StorageError) as error:
        raise Unstartable(str(error)) from error
    if not is_up:
        return
    ready(broker)
    await stopped.wait()
    log.info("stopping")
    await broker.stop()


async def _unless(stopped: asyncio.Event, start: Coroutine[Any, Any, None]) -> bool:
    """Whether it came to its end before somebody changed his mind: a broker may have to wait for others."""
    starting, stopping = asyncio.ensure_future(start), asyncio.ensure_future(stopped.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        stopping.cancel()
        await starting
        return True
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    return False
