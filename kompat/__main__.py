"""The `kompat` command. Imports wait until they are needed: a broker has to be up within a blink."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from kompat import __version__

if TYPE_CHECKING:
    from kompat.config.load import BrokerConfig

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

REFUSED = 2  # exit status of a start that cannot succeed until somebody changes something
MOST_LOCAL_BROKERS = 99
GC_THRESHOLDS = (20_000, 20, 50)
USER_COMMANDS = {"consume": "read a topic"}  # each is a module of kompat.cli

START_FLAGS = (
    "host",
    "port",
    "http_host",
    "http_port",
    "data",
    "node_id",
    "advertised",
    "cluster",
    "cluster_listener",
    "cluster_secret_file",
)


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    args = _parser(given[0] if given else None).parse_args(argv)
    gc.disable()  # nothing that is built during the start becomes garbage
    run: Callable[[argparse.Namespace], int] = args.run
    return run(args)


def _parser(command: str | None) -> argparse.ArgumentParser:
    """Of the commands for users only the given one is looked into: the others are not imported."""
    parser = argparse.ArgumentParser(prog="kompat", description="A Kafka broker in one process.")
    parser.add_argument("--version", action="version", version=f"kompat {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_start(commands)
    _add_cluster(commands)
    for name, summary in USER_COMMANDS.items():
        if name == command:
            import_module(f"kompat.cli.{name}").add(commands, summary)
        else:
            commands.add_parser(name, help=summary)
    return parser


def _add_start(commands: Commands) -> None:
    start = commands.add_parser(
        "start",
        help="run a broker",
        description="Run a broker until SIGTERM. Flags win over KOMPAT_… variables, these over the file.",
    )
    start.add_argument("--host", help="address to listen on (127.0.0.1)")
    start.add_argument("--port", help="Kafka's port (9092); 0 takes a free one")
    start.add_argument("--http-host", metavar="HOST", help="address of REST, metrics and console (127.0.0.1)")
    start.add_argument("--http-port", metavar="PORT", help="its port (8080); 0 takes a free one, none is for none")
    start.add_argument("--data", metavar="DIR", help="data directory (./kompat-data); :memory: keeps nothing")
    start.add_argument("--node-id", metavar="N", help="this broker's number")
    start.add_argument("--advertised", metavar="HOST:PORT", help="what clients are told (the address they dialled)")
    start.add_argument("--cluster", metavar="N@HOST:PORT,…", help="brokers to found a cluster with, or to join")
    start.add_argument(
        "--cluster-listener", metavar="HOST:PORT", help="where other brokers connect (as --cluster says)"
    )
    start.add_argument("--cluster-secret-file", metavar="FILE", help="what the brokers of the cluster have in common")
    start.add_argument("--config", metavar="FILE", help="settings, a name=value a line")
    start.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="any setting, by Kafka's name")
    start.set_defaults(run=_start)


def _add_cluster(commands: Commands) -> None:
    cluster = commands.add_parser("cluster", help="run several brokers on this machine")
    start = cluster.add_subparsers(required=True, metavar="COMMAND").add_parser(
        "start",
        help="run a cluster of local brokers",
        description="Run brokers of one cluster, each in a process of its own, until SIGTERM; then stop one after the other.",
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
    start.set_defaults(run=_start_cluster)


def _start_cluster(args: argparse.Namespace) -> int:
    import asyncio
    from pathlib import Path

    from kompat.local_cluster import LocalCluster, Supervisor

    if not 1 <= args.brokers <= MOST_LOCAL_BROKERS:
        return _refuse(ValueError(f"--brokers {args.brokers}: from 1 to {MOST_LOCAL_BROKERS}"))
    flags = [part for each in args.set for part in ("--set", each)] + (["--config", args.config] if args.config else [])
    data = Path(args.data)
    cluster = LocalCluster(args.brokers, args.host, args.port_base, args.http_port_base, data, flags)
    try:
        cluster.prepare()
    except OSError as error:
        return _refuse(error)

    def ready() -> None:
        print(f"kompat {__version__} cluster ready: kafka {cluster.bootstrap}", flush=True)

    async def supervise() -> int:
        return await Supervisor(cluster, ready).run()

    return asyncio.run(supervise())


def _start(args: argparse.Namespace) -> int:
    from kompat.config.load import assignments, load
    from kompat.errors import ConfigError

    given = {name.replace("_", "-"): getattr(args, name) for name in START_FLAGS}
    try:
        flags = assignments(args.set) | {name: value for name, value in given.items() if value is not None}
        config = load(flags, file=args.config)
    except ConfigError as error:
        return _refuse(error)
    return _run(config)


def _run(config: BrokerConfig) -> int:
    from kompat import logs
    from kompat.broker import Broker, Unstartable, run_until_signal

    logs.set_up()
    _raise_file_limit()

    def ready(broker: Broker) -> None:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
        http = f" http {broker.http}" if broker.http else ""
        print(f"kompat {__version__} ready: kafka {broker.address}{http}", flush=True)

    try:
        run_until_signal(config, ready)
    except Unstartable as error:
        return _refuse(error)
    return 0


def _raise_file_limit() -> None:
    """To what the system allows, as a JVM does: the usual 1024 is less than a broker's files and clients together."""
    try:
        import resource
    except ImportError:  # there is no such limit on Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS says "unlimited" and means something else
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _refuse(error: Exception) -> int:
    print(f"kompat: {' '.join(str(error).split())}", file=sys.stderr)
    return REFUSED


if __name__ == "__main__":
    sys.exit(main())
