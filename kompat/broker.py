"""The composition root: it builds all parts of a broker, and closes them in reverse order."""

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
from kompat.admin.http_server import HttpServer
from kompat.backup.service import Backups
from kompat.clock import Clock, SystemClock
from kompat.cluster.authorizer import Authorizer
from kompat.cluster.client_quotas import ClientQuotas
from kompat.cluster.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, is_internal
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Address, ResourceType
from kompat.cluster.users import Users
from kompat.common.meters import LoopLag, Meters
from kompat.config.broker import BrokerConfig
from kompat.coordination.leadership_events import Coordinator, LeadershipEvents
from kompat.errors import ConfigError, DamagedData, KafkaError, StorageError
from kompat.extensions.dead_letters.appender import DlqAppender
from kompat.extensions.dead_letters.destination import DeadLetterTopics
from kompat.extensions.dead_letters.forwarder import ExactlyOnceForwarder
from kompat.extensions.dead_letters.service import DeadLetterService
from kompat.extensions.dead_letters.share_groups import DeadLetterWriter
from kompat.extensions.delay.service import DelayService
from kompat.extensions.partitions import PartitionLookup
from kompat.extensions.priority.index import order_of
from kompat.extensions.priority.service import LaneService
from kompat.extensions.queues.leader import QueueLeader
from kompat.extensions.queues.service import QueueService
from kompat.extensions.queues.topics import QueueTopics
from kompat.extensions.reads.end_offsets import EndOffsets
from kompat.extensions.reads.service import ReadService
from kompat.extensions.service import Extensions
from kompat.extensions.tracing.recorder import Observer, Recorder
from kompat.extensions.tracing.service import TraceService
from kompat.groups.build import build_groups
from kompat.groups.service import GroupService
from kompat.handlers import APIS
from kompat.handlers.support.fetch_room import FetchRoom
from kompat.handlers.support.fetch_sessions import FetchSessions
from kompat.handlers.support.services import Services
from kompat.handlers.support.transactional_produce import Turns
from kompat.log.commit import GroupCommit
from kompat.log.manager import Logs
from kompat.log.settings import log_settings
from kompat.server.dispatch import Dispatcher
from kompat.server.forwarding import ForwardedRequests
from kompat.server.limits import limits_of
from kompat.server.listener import Listener
from kompat.server.listeners import Listeners
from kompat.share.build import build_shares
from kompat.share.groups.registry import ShareRegistry
from kompat.share.groups.service import ShareGroupExtension, ShareGroupService
from kompat.share.service import ShareService
from kompat.telemetry.service import Telemetry
from kompat.txn.build import build_transactions
from kompat.txn.service import TransactionService
from kompat.types import Millis, NodeId

if TYPE_CHECKING:
    from kompat.cluster.local_broker import BrokerParts
    from kompat.log.storage.store import LogStore

log = logging.getLogger(__name__)

IN_MEMORY = ":memory:"
DRAIN_SECONDS = 3.0
SWITCH_SECONDS = 0.0005  # a worker thread that reads for one client must not hold the interpreter longer than this
SESSION_EVICTION = Millis(120_000)  # as in Kafka, which has no setting for it
MAX_SESSION_ID = 2**31 - 1


class Unstartable(Exception):  # noqa: N818 - its text is the operator's message
    """The broker cannot start until the operator changes something: the message says what."""


class Broker:
    def __init__(self, config: BrokerConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._built = AsyncExitStack()  # what `stop` has to close
        self.meters = Meters()
        self.peer: Address | None = None  # its address for other brokers of the cluster
        self._listeners = Listeners(config, self._clock)
        self.http_scheme = "http"
        self.http = ""  # host:port of its HTTP port; empty if it has none

    @property
    def endpoint(self) -> tuple[str, int]:
        """The endpoint of the first listener."""
        return next(iter(self.endpoints.values()))

    @property
    def endpoints(self) -> dict[str, tuple[str, int]]:
        """The endpoints by listener name."""
        return self._listeners.addresses

    @property
    def address(self) -> str:
        """The address of the first listener, then those of the others with their names."""
        first, *others = ((name, str(Address(*at))) for name, at in self.endpoints.items())
        return " ".join((first[1], *(f"{name}://{at}" for name, at in others)))

    async def start(self) -> None:
        """Start to serve clients. If that fails, everything that was opened is closed."""
        try:
            self._listeners.prepare()
            self._built.callback(self._listeners.close)
            http_server = await self._bind_http()
            services = await self._build_services()
            dispatcher = Dispatcher(APIS, services, services.meters)
            ForwardedRequests(services.cluster.rpc, dispatcher)
            listener = Listener(
                dispatcher, limits_of(self._config), on_left=services.disconnected, quotas=services.quotas
            )
            services.fetch_room.unread = lambda: listener.unread
            self._count_connections(listener)
            self._built.callback(LoopLag(self.meters.loop_lag, asyncio.get_running_loop()).close)
            await self._listen(listener, services.users)
            # Before connections are drained: a member may wait for a rebalance longer than a stop may take.
            self._built.callback(services.groups.dismiss)
            # While clients are still served, so that none of them has to wait for a new leader.
            self._built.push_async_callback(services.cluster.local.hand_over)
            http_server.serve(services, self.endpoint, listener.budget)
            self._built.push_async_callback(
                http_server.close
            )  # first of all: the services that it uses are still there
        except BaseException:
            await self.stop()
            raise
        log.info("ready", extra={"version": __version__, "kafka": self.address, "data": self._config.data})

    async def stop(self) -> None:
        """Finish requests in progress, write everything, and unlock the data directory."""
        await self._built.aclose()

    async def _bind_http(self) -> HttpServer:
        http_server = HttpServer(self._config)
        self._built.push_async_callback(http_server.close)  # if the start fails
        await http_server.bind()
        self.http, self.http_scheme = http_server.address, http_server.scheme
        return http_server

    async def _build_services(self) -> Services:
        config, clock = self._config, self._clock
        logs, commit = self._open_logs()
        extensions = Extensions(logs, clock, is_internal)
        self._built.callback(extensions.close)
        self.meters.fired, self.meters.released = (
            lambda: extensions.scheduler.fired,
            lambda: extensions.releases.released,
        )
        cluster = await self._start_cluster(logs, commit)
        rpc, partitions = cluster.rpc, PartitionLookup(cluster)
        logs.start()
        config.watch(lambda _: logs.configure(log_settings(config)))
        forwarder = ExactlyOnceForwarder(rpc, clock, extensions.tracer)
        shares = self._build_shares(cluster, logs, extensions, forwarder)
        groups, transactions = self._build_coordinators(cluster, logs, extensions, shares)
        share_groups = ShareGroupService(groups, shares.offsets, clock)
        self._built.push_async_callback(share_groups.close)
        reads = ReadService(partitions, rpc)
        recorder = self._start_recorder(extensions, cluster, logs)
        self._start_coordinators(cluster, groups, transactions, shares)
        QueueLeader(rpc, shares, logs, ShareRegistry(cluster, share_groups).register)
        queue_topics = QueueTopics(cluster, logs, shares)
        self._built.push_async_callback(queue_topics.close)
        await queue_topics.start()
        extensions.start(groups)
        return Services(
            config=config,
            clock=clock,
            cluster=cluster,
            logs=logs,
            groups=groups,
            share_groups=share_groups,
            transactions=transactions,
            shares=shares,
            telemetry=_telemetry(clock, cluster),
            backups=self._backups(logs, cluster),
            delays=DelayService(partitions, rpc, logs, clock),
            ends=EndOffsets(rpc, logs, clock),
            queues=QueueService(cluster),
            dead_letters=DeadLetterService(cluster, logs, clock, extensions.tracer, forwarder),
            lanes=LaneService(partitions, rpc, logs),
            tracer=extensions.tracer,
            traces=TraceService(recorder, partitions, rpc, reads),
            reads=reads,
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

    def _build_shares(
        self, cluster: ClusterService, logs: Logs, extensions: Extensions, forwarder: ExactlyOnceForwarder
    ) -> ShareService:
        topics, events = DeadLetterTopics(cluster), extensions.share_traces
        writer = DeadLetterWriter(DlqAppender(topics.find, forwarder), self._clock, events, profile=topics.profile)
        return build_shares(
            self._config, self._clock, cluster, logs, order_of=order_of, dead_letters=writer, events=events
        )

    def _build_coordinators(
        self, cluster: ClusterService, logs: Logs, extensions: Extensions, shares: ShareService
    ) -> tuple[GroupService, TransactionService]:
        config, clock = self._config, self._clock
        kinds = [ShareGroupExtension(shares.offsets, clock)]
        groups = build_groups(config, clock, cluster, logs, kinds, extensions.commit_traces)
        transactions = build_transactions(config, clock, cluster, logs, groups)
        for service in (groups, transactions, shares):
            self._built.push_async_callback(service.close)
        return groups, transactions

    def _start_coordinators(
        self, cluster: ClusterService, groups: GroupService, transactions: TransactionService, shares: ShareService
    ) -> None:
        for service in (groups, transactions, shares):
            service.start()
        coordinators: dict[str, Coordinator] = {
            CONSUMER_OFFSETS: groups,
            TRANSACTION_STATE: transactions,
            SHARE_GROUP_STATE: shares.coordinator,
        }
        cluster.local.leadership.watch(LeadershipEvents(coordinators, shares.leader_changed))

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
        logs = Logs(store, commit, self._clock, log_settings(config), self.meters)
        self._built.push_async_callback(_close_logs, logs)
        return logs, commit

    async def _start_cluster(self, logs: Logs, commit: GroupCommit) -> ClusterService:
        parts = await self._join_cluster(commit) if is_clustered(self._config) else None
        cluster = ClusterService(self._config, self._clock, logs, parts)
        self._built.push_async_callback(cluster.close)
        await cluster.start()
        return cluster

    async def _start_users(self, cluster: ClusterService) -> Users:
        users = Users(cluster)
        self._built.callback(users.close)
        await users.begin(self._config)
        return users

    async def _join_cluster(self, commit: GroupCommit) -> BrokerParts:
        from kompat.cluster.build import build  # a single broker does not need these imports

        await self._listeners.bind()  # other brokers have to know the ports before clients connect
        kafka = {name: Address(*at) for name, at in self.endpoints.items()}
        parts = await build(self._config, self._clock, commit, kafka, self._built)
        self.peer = parts.broker.peer
        return parts

    def _start_recorder(self, extensions: Extensions, cluster: ClusterService, logs: Logs) -> Recorder:
        recorder = Recorder(extensions.tracer, cluster, cluster.rpc, logs, self._trace_observers())
        self._built.push_async_callback(recorder.close)
        recorder.start()
        return recorder

    def _trace_observers(self) -> list[Observer]:
        if not self._config["kompat.otlp.endpoint"]:
            return []
        from kompat.extensions.tracing.otlp import OtlpExport  # its imports take a while

        export = OtlpExport(self._config["kompat.otlp.endpoint"], node_id=self._config.node_id, version=__version__)
        export.start()
        self._built.push_async_callback(asyncio.to_thread, export.close)
        return [export.show]

    def _count_connections(self, listener: Listener) -> None:
        self.meters.connections = lambda: len(listener.connections)
        self.meters.connections_accepted = lambda: listener.accepted
        self.meters.bytes_under_way = lambda: listener.budget.used
        self.meters.refused_logins = lambda: dict(listener.unauthenticated.refused)

    async def _listen(self, listener: Listener, users: Users) -> None:
        self._built.push_async_callback(listener.drain, DRAIN_SECONDS)
        await self._listeners.open(listener, users)
        self._config.watch(lambda _: listener.change_limits(limits_of(self._config)))


async def _close_logs(logs: Logs) -> None:
    try:
        await logs.close()
    except KafkaError as error:
        # What was acknowledged is written: only the next start takes longer.
        log.warning("the logs could not be closed in good order", extra={"reason": error})


def _telemetry(clock: Clock, cluster: ClusterService) -> Telemetry:
    def subscriptions() -> list[Mapping[str, str]]:
        found = cluster.image.configs.items()
        return [settings for resource, settings in found if resource.type is ResourceType.CLIENT_METRICS]

    return Telemetry(clock, subscriptions, lambda: cluster.metadata_offset)


def is_clustered(config: BrokerConfig) -> bool:
    return bool(config["kompat.cluster.members"])


def _store(config: BrokerConfig) -> LogStore:
    # Neither needs what the other imports.
    if config.data == IN_MEMORY:
        from kompat.log.storage.memory import MemoryStore

        return MemoryStore()
    from kompat.log.storage.rocks import RocksStore

    return RocksStore(config.data, reserve_bytes=config["kompat.disk.reserve.bytes"])


def _fetch_sessions(config: BrokerConfig) -> FetchSessions:
    slots = config["max.incremental.fetch.session.cache.slots"]
    # A fetch session's id is not a secret: it saves bytes, and gives no rights.
    return FetchSessions(slots, SESSION_EVICTION, lambda: random.randint(1, MAX_SESSION_ID))  # noqa: S311


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # it is not available on every platform
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
    """Whether the start finished before the signal to stop: a broker may have to wait for others."""
    starting, stopping = asyncio.ensure_future(start), asyncio.ensure_future(stopped.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        stopping.cancel()
        await starting
        return True
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    return False
