"""A broker for the tests of other software: in this process, in memory, on a free port.

    with kompat.testing.broker(num_partitions=3) as b:
        producer = Producer({"bootstrap.servers": b.bootstrap_servers})

Or a cluster, to see how a client behaves when a broker stops:

    with kompat.testing.cluster(brokers=3, default_replication_factor=3) as c:
        producer = Producer({"bootstrap.servers": c.bootstrap_servers})
        c.stop(2)

With pytest, the fixtures `kompat_broker` and `kompat_bootstrap_servers` are there as soon as kompat is installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = ["RunningBroker", "RunningCluster", "broker", "cluster"]

SECRET = "of a cluster in one process"  # noqa: S105 - all brokers are in this process

DEFAULTS = {
    "port": "0",
    "data": ":memory:",
    "http-port": "none",
    # A test's group need not wait for more members before its first rebalance.
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}

Setting = str | int | float | bool


@dataclass(frozen=True, slots=True)
class RunningBroker:
    host: str
    port: int
    http: str = ""  # host:port of its HTTP port; empty unless it was started with `http=True`
    http_scheme: str = "http"

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def http_url(self) -> str:
        return f"{self.http_scheme}://{self.http}"


@contextlib.contextmanager
def broker(settings: Mapping[str, Setting] | None = None, **named: Setting) -> Iterator[RunningBroker]:
    """Run a broker until the end of the block.

    Settings have Kafka's names, in `settings` or as keywords with underscores: `log_retention_ms=1000`. With `http=True`
    it has an HTTP port, too: `http_url`.
    """
    thread = _BrokerThread(_texts({**(settings or {}), **named}))
    thread.start()
    try:
        yield thread.wait_until_ready()
    finally:
        thread.stop()


class RunningCluster:
    """Brokers by their node ids, from 1 on."""

    def __init__(self) -> None:
        self.brokers: dict[int, RunningBroker] = {}
        self._threads: dict[int, _BrokerThread] = {}
        self._first = ""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start(self, *node_ids: int, settings: Mapping[str, Setting]) -> None:
        """Start brokers: the first one founds the cluster, the others join it."""
        for node_id in node_ids:
            own: dict[str, Setting] = {
                "node.id": node_id,
                "kompat.cluster.secret": SECRET,
                "kompat.cluster.members": self._first,
            }
            thread = self._threads[node_id] = _BrokerThread(_texts({**settings, **own}))
            if not self._first:
                thread.settings["kompat.cluster.members"] = f"{node_id}@127.0.0.1:0"
            thread.start()
            if not self._first:
                thread.wait_until_ready()
                self._first = f"{node_id}@{thread.peer}"
        for node_id in node_ids:
            self.brokers[node_id] = self._threads[node_id].wait_until_ready()

    def stop(self, node_id: int) -> None:
        """Stop a broker; its data is lost."""
        del self.brokers[node_id]
        self._threads.pop(node_id).stop()

    def stop_all(self) -> None:
        self.brokers.clear()
        while self._threads:
            self._threads.popitem()[1].stop()


@contextlib.contextmanager
def cluster(
    brokers: int = 3, settings: Mapping[str, Setting] | None = None, **named: Setting
) -> Iterator[RunningCluster]:
    """Run a cluster until the end of the block. The settings, as for `broker`, apply to all its brokers."""
    running = RunningCluster()
    try:
        running.start(*range(1, brokers + 1), settings={**(settings or {}), **named})
        yield running
    finally:
        running.stop_all()


def _texts(settings: Mapping[str, Setting]) -> dict[str, str]:
    texts = {**DEFAULTS}
    if settings.get("http") is True:
        texts["http-port"] = "0"
        settings = {name: value for name, value in settings.items() if name != "http"}
    for name, value in settings.items():
        texts[name if "." in name else name.replace("_", ".")] = (
            str(value).lower() if isinstance(value, bool) else str(value)
        )
    return texts


class _BrokerThread(threading.Thread):
    """A thread with an event loop of its own, so that the test may block as it likes."""

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(name="kompat-broker", daemon=True)
        self.settings = settings
        self.peer = ""  # its address for other brokers
        self._is_up = threading.Event()
        self._running: RunningBroker | None = None
        self._error: BaseException | None = None
        self._is_wanted = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None

    def run(self) -> None:
        try:
            from kompat.broker import new_event_loop

            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that waits
            self._error = error
        finally:
            self._is_up.set()

    async def _serve(self) -> None:
        from kompat.broker import Broker
        from kompat.config.load import load

        self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if not self._is_wanted:  # `stop` was called before the loop existed
            return
        broker = Broker(load(self.settings, environ={}))
        await broker.start()
        try:
            self._running = RunningBroker(*broker.endpoint, broker.http, broker.http_scheme)
            self.peer = str(broker.peer or "")
            self._is_up.set()
            await self._end.wait()
        finally:
            await broker.stop()

    def wait_until_ready(self) -> RunningBroker:
        self._is_up.wait()
        if self._running is not None:
            return self._running
        raise self._error or RuntimeError("the broker ended before it was ready")

    def stop(self) -> None:
        """Stop the broker. Raises the error that it failed with, if it did."""
        self._is_wanted = False
        if self._loop is not None and self._end is not None:
            with contextlib.suppress(RuntimeError):  # the start has failed, and the loop has ended
                self._loop.call_soon_threadsafe(self._end.set)
        self.join()
        if self._running is not None and self._error is not None:
            raise self._error
