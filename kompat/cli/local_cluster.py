"""`kompat cluster start`: several brokers on this machine, each in a process of its own, so that they use several cores.

This process supervises the others: it starts them, restarts one that has died, and stops them one after the other,
so that each can hand over its leaderships.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

REFUSED = 2  # exit status of a broker that cannot start until the operator changes something
AGAIN_AFTER = 1.0  # seconds
STOP_SECONDS = 20.0
PEERS_ABOVE = 100  # the port for other brokers is the port for clients plus this
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class LocalCluster:
    brokers: int
    host: str
    port_base: int
    http_port_base: int  # 0: none
    data: Path
    flags: Sequence[str] = ()  # of all brokers

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.host}:{self.port_base + index}" for index in range(self.brokers))

    @property
    def members(self) -> str:
        ports = (self.port_base + PEERS_ABOVE + index for index in range(self.brokers))
        return ",".join(f"{number}@{self.host}:{port}" for number, port in enumerate(ports, 1))

    def command(self, number: int) -> list[str]:
        http_port = self.http_port_base + number - 1 if self.http_port_base else "none"
        given = {
            "node-id": number,
            "host": self.host,
            "port": self.port_base + number - 1,
            "http-port": http_port,
            "data": self.data / f"broker-{number}",
            "cluster": self.members,
            "cluster-secret-file": self.secret,
        }
        named = [part for name, value in given.items() for part in (f"--{name}", str(value))]
        return [sys.executable, "-m", "kompat", "start", *named, *self.flags]

    @property
    def secret(self) -> Path:
        return self.data / "secret"

    def prepare(self) -> None:
        """Make the directory, and the secret by which the brokers authenticate each other. Raises OSError."""
        self.data.mkdir(parents=True, exist_ok=True)
        if not self.secret.exists():
            handle = os.open(self.secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_hex(SECRET_BYTES) + "\n")


class Supervisor:
    def __init__(self, cluster: LocalCluster, ready: Callable[[], None]) -> None:
        self._cluster = cluster
        self._ready = ready
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._up: set[int] = set()
        self._stop = asyncio.Event()
        self._status = 0

    async def run(self) -> int:
        """Run the brokers until SIGTERM or SIGINT. Returns the exit status."""
        loop = asyncio.get_running_loop()
        for reason in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(reason, self._stop.set)
        tasks = [asyncio.create_task(self._keep(number)) for number in range(1, self._cluster.brokers + 1)]
        await self._stop.wait()
        for number in sorted(self._processes):
            await self._end(number)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self._status

    async def _keep(self, number: int) -> None:
        while not self._stop.is_set():
            # In sessions of their own: Ctrl-C reaches only this process, which stops them in order.
            process = await asyncio.create_subprocess_exec(
                *self._cluster.command(number), stdout=asyncio.subprocess.PIPE, start_new_session=True
            )
            self._processes[number] = process
            await self._listen(number, process)
            status = await process.wait()
            self._up.discard(number)
            if self._stop.is_set():
                return
            if status == REFUSED:
                self._status = status
                self._stop.set()
                return
            print(f"kompat: broker {number} exited with {status} and is restarted", file=sys.stderr, flush=True)  # noqa: T201
            await asyncio.sleep(AGAIN_AFTER)

    async def _listen(self, number: int, process: asyncio.subprocess.Process) -> None:
        """Read the output of a broker until it ends: a line means that it is ready."""
        while process.stdout is not None and await process.stdout.readline():
            was_whole = len(self._up) == self._cluster.brokers
            self._up.add(number)
            if not was_whole and len(self._up) == self._cluster.brokers:
                self._ready()

    async def _end(self, number: int) -> None:
        process = self._processes[number]
        if process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
