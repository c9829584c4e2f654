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
        description="Run the brokers of a cluster, each in its own process, until SIGTERM; then stop them one after the other.",
        examples=["kompat cluster start", "kompat cluster start --brokers 5 --port-base 19092 --data /tmp/cluster"],
    )
    start.add_argument("--brokers", metavar="N", type=int, default=3, help="number of brokers (3)")
    start.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    start.add_argument(
        "--port-base", metavar="PORT", type=int, default=9092, help="Kafka port of the first broker (9092)"
    )
    start.add_argument(
        "--http-port-base",
        metavar="PORT",
        type=int,
        default=8080,
        help="HTTP port of the first broker (8080); 0 disables HTTP",
    )
    start.add_argument(
        "--data", metavar="DIR", default="kompat-cluster", help="directory for the data directories (./kompat-cluster)"
    )
    start.add_argument("--config", metavar="FILE", help="properties file for all brokers: one name=value on each line")
    start.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="set a configuration property of all brokers"
    )
    start.set_defaults(run=_start)


def _start(given: argparse.Namespace) -> int:
    import asyncio
    from pathlib import Path

    from kompat.cli.local_cluster import LocalCluster, Supervisor

    if not 1 <= given.brokers <= MOST_LOCAL_BROKERS:
        return fail(f"--brokers {given.brokers}: the number must be between 1 and {MOST_LOCAL_BROKERS}", WRONG_USAGE)
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
