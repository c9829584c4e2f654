"""Links between brokers on loopback: Raft messages and bytes a second, calls, streams.

Two processes, one link; `python -m benchmarks.peers [--seconds 2] [--tls-files CERT KEY CA]`.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import uvloop

from kompat.raft.links.identity import Identity, Tls
from kompat.raft.peers import Peers
from kompat.types import Buffer, NodeId

NODE, OTHER = NodeId(1), NodeId(2)
ECHO, SINK = 1, 1
GROUP = bytes(20)
HEADER = bytes(40)
SECRET = b"a secret for benchmarks"


def identity(tls_files: list[str] | None) -> Identity:
    return Identity(SECRET, Tls.load(*tls_files) if tls_files else None)


async def answer(tls_files: list[str] | None, tell_port: Callable[[int], None]) -> None:
    """The other broker: acknowledges each Raft message, as a follower does."""
    peers = Peers(OTHER, identity(tls_files))
    peers.on_raft = lambda node, group, header, payloads: peers.send_raft(node, group, b"ack", ()) and None

    async def echo(_: NodeId, body: memoryview) -> Sequence[Buffer]:
        return [body]

    async def sink(_: NodeId, __: bytes, chunks: AsyncIterator[memoryview]) -> bytes:
        size = 0
        async for chunk in chunks:
            size += len(chunk)
        return b"%d" % size

    peers.on_call[ECHO] = echo
    peers.on_stream[SINK] = sink
    _, port = await peers.listen("127.0.0.1", 0)
    tell_port(port)
    await asyncio.Event().wait()


def run_other(tls_files: list[str] | None, ports: multiprocessing.Queue[int]) -> None:
    uvloop.run(answer(tls_files, ports.put))


class Sender:
    """Keeps a window of Raft messages under way."""

    def __init__(self, peers: Peers, payloads: Sequence[Buffer], window: int) -> None:
        self._peers = peers
        self._payloads = payloads
        self._window = window
        self.acknowledged = 0
        self._under_way = 0
        peers.on_raft = self._acknowledged

    def _acknowledged(self, *_: object) -> None:
        self.acknowledged += 1
        self._under_way -= 1
        if self._under_way <= self._window // 2:
            self.fill()

    def fill(self) -> None:
        while self._under_way < self._window and self._peers.send_raft(OTHER, GROUP, HEADER, self._payloads):
            self._under_way += 1


async def measure_raft(peers: Peers, size: int, window: int, seconds: float) -> str:
    payload = bytes(size)
    sender = Sender(peers, [payload] if size else [], window)
    cpu, start = time.process_time(), time.perf_counter()
    sender.fill()
    await asyncio.sleep(seconds)
    count, spent = sender.acknowledged, time.perf_counter() - start
    cpu = time.process_time() - cpu
    sender._window = 0
    await asyncio.sleep(0.3)
    rate = count / spent
    return f"{rate:>10,.0f} /s  {rate * size / 1e6:>8,.0f} MB/s  {cpu / max(1, count) * 1e6:>8.1f} us of CPU each"


async def measure_calls(peers: Peers, clients: int, seconds: float) -> str:
    count = 0
    end = time.perf_counter() + seconds

    async def ask() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await peers.call(OTHER, ECHO, [b"question"], 10)
            count += 1

    await asyncio.gather(*(ask() for _ in range(clients)))
    return f"{count / seconds:>10,.0f} /s"


async def measure_stream(peers: Peers, seconds: float) -> str:
    end = time.perf_counter() + seconds
    chunk = bytes(256 * 1024)

    async def chunks() -> AsyncIterator[Sequence[Buffer]]:
        while time.perf_counter() < end:
            yield [chunk]

    start = time.perf_counter()
    size = int(bytes(await peers.stream(OTHER, SINK, b"", chunks())))
    return f"{size / (time.perf_counter() - start) / 1e6:>10,.0f} MB/s"


async def measure(port: int, tls_files: list[str] | None, seconds: float) -> None:
    peers = Peers(NODE, identity(tls_files))
    peers.connect(OTHER, "127.0.0.1", port)
    while not peers.is_up(OTHER):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    rows: list[tuple[str, Callable[[], Awaitable[str]]]] = [
        ("Raft messages without payload, 500 under way", lambda: measure_raft(peers, 0, 500, seconds)),
        ("Raft messages of 16 KiB, 200 under way", lambda: measure_raft(peers, 16_384, 200, seconds)),
        ("Raft messages of 1 MiB, 8 under way", lambda: measure_raft(peers, 1 << 20, 8, seconds)),
        ("Raft message without payload, one at a time", lambda: measure_raft(peers, 0, 1, seconds)),
        ("calls, one at a time", lambda: measure_calls(peers, 1, seconds)),
        ("calls, 50 at a time", lambda: measure_calls(peers, 50, seconds)),
        ("stream of 256-KiB chunks", lambda: measure_stream(peers, seconds)),
    ]
    for name, row in rows:
        print(f"{name:<48}{await row()}", flush=True)
    await peers.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--tls-files", nargs=3, metavar=("CERT", "KEY", "CA"))
    args = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ports: multiprocessing.Queue[int] = context.Queue()
    other = context.Process(target=run_other, args=(args.tls_files, ports), daemon=True)
    other.start()
    try:
        uvloop.run(measure(ports.get(timeout=20), args.tls_files, args.seconds))
    finally:
        other.terminate()
        other.join()


if __name__ == "__main__":
    main()
