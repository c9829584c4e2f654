"""A broker for the tests of other people's software: in this process, in memory, on a free port.

    with kompat.testing.broker(num_partitions=3) as b:
        producer = Producer({"bootstrap.servers": b.bootstrap_servers})

With pytest, the fixtures `kompat_broker` and `kompat_bootstrap_servers` are there as soon as kompat is installed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["RunningBroker", "broker"]

Setting = str | int | float | bool


@dataclass(frozen=True, slots=True)
class RunningBroker:
    host: str
    port: int

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"


@contextmanager
def broker(settings: Mapping[str, Setting] | None = None, **named: Setting) -> Iterator[RunningBroker]:
    """Run a broker until the end of the block.

    Settings have Kafka's names, in `settings` or as keywords with underscores: `log_retention_ms=1000`.
    """
    thread = _BrokerThread(_texts({**(settings or {}), **named}))
    thread.start()
    try:
        yield thread.wait_until_ready()
    finally:
        thread.stop()


def _texts(settings: Mapping[str, Setting]) -> dict[str, str]:
    texts = {"port": "0", "data": ":memory:"}
    for name, value in settings.items():
        texts[name.replace("_", ".")] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


class _BrokerThread(threading.Thread):
    """A thread with an event loop of its own, so that the test may block as it likes."""

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(name="kompat-broker", daemon=True)
        self._settings = settings
        self._is_up = threading.Event()
        self._running: RunningBroker | None = None
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None

    def run(self) -> None:
        from kompat.broker import new_event_loop

        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that waits
            self._error = error
        finally:
            self._is_up.set()

    async def _serve(self) -> None:
        from kompat.broker import Broker
        from kompat.config.load import load

        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        broker = Broker(load(self._settings, environ={}))
        await broker.start()
        try:
            self._running = RunningBroker(*broker.endpoint)
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
        """Stop the broker; whatever broke it in the meantime is raised here."""
        if self.is_alive() and self._loop is not None and self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self.join()
        if self._running is not None and self._error is not None:
            raise self._error
