"""`kompat cluster start`: several brokers on this machine."""

from __future__ import annotations

import argparse
from typing import Final

from kompat import __version__
from kompat.cli.command import WRONG_USAGE, Parsers, declare, fail

MOST_LOCAL_BROKERS: Final = 99


def add(inner: Parsers) -> None:
    start = declare(
        inner,
        "start",
        "run a cluster of local brokers",
        description="Run brokers of one cluster, each in a process of its own, until SIGTERM; then stop one after the other.",
        examples=["kompat cluster start", "kompat cluster start --brokers 5 --port-base 19092 --data /tmp/cluster"],
    )
    start.add_argument("--brokers", metavar="N", type=int, default=3, help="how many (3)")
    start.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    start.add_argument("--port-base", metavar="PORT", type=int, default=9092, help="Kafka's port of the first (9092)")
    start.add_argument("--http-port-base", metavar="PORT", type=int, default=8080, help="of the first (8080); 0: none")
    start.add_argument(
        "--data", metavar="DIR", default="kompat-cluster", help="where they keep data (./kompat-cluster)"
    )
    start.add_argument("--config", metavar="FILE", help="settings of all of them, a name=value a line")
    start.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of all of them")
    start.set_defaults(run=_start)


def _start(given: argparse.Namespace) -> int:
    import asyncio
    from pathlib import Path

    from kompat.local_cluster import LocalCluster, Supervisor

    if not 1 <= given.brokers <= MOST_LOCAL_BROKERS:
        return fail(f"--brokers {given.brokers}: from 1 to {MOST_LOCAL_BROKERS}", WRONG_USAGE)
    flags = [part for each in given.set for part in ("--set", each)]
    flags += ["--config", given.config] if given.config else []
    data = Path(given.data)
    cluster = LocalCluster(given.brokers, given.host, given.port_base, given.http_port_base, data, flags)
    try:
        cluster.prepare()
    except OSError as error:
        return fail(str(error), WRONG_USAGE)

    def ready() -> None:
        print(f"kompat {__version__} cluster ready: kafka {cluster.bootstrap}", flush=True)  # noqa: T201

    async def supervise() -> int:
        return await Supervisor(cluster, ready).run()

    return asyncio.run(supervise())
