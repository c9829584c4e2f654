"""The `kompat` command. Imports are deferred until they are needed, so that a broker starts fast."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from kompat import __version__

if TYPE_CHECKING:
    from kompat.config.load import BrokerConfig

    Commands = argparse._SubParsersAction[Any]

INTERRUPTED = 130
REFUSED = 2  # exit status of a start that cannot succeed until the operator changes something
VERSION = "--version"
GC_THRESHOLDS = (10_000, 3, 700)  # so that neither of the young generations holds the event loop for 10 ms

# Each command but the first is a module of kompat.cli, with `_` for `-`.
COMMANDS = {
    "start": "run a broker",
    "cluster": "run a local cluster, and manage the brokers of a cluster",
    "topics": "list, create, describe, configure and delete topics, add partitions",
    "produce": "produce records",
    "consume": "consume records",
    "groups": "list and describe groups, reset their offsets, delete them",
    "config": "describe and change the configuration of topics, brokers and groups",
    "users": "list, add and remove SCRAM users",
    "acls": "list, add and remove ACLs",
    "quotas": "list, set and remove quotas",
    "queue": "acquire single records of a queue and acknowledge them",
    "delayed": "list, cancel and reschedule delayed records",
    "dlq": "browse, redrive and purge dead-letter records",
    "trace": "show the trace of a record",
    "bench": "measure the throughput and latency of a broker",
    "backup": "back up a running broker, and verify backups",
    "restore": "restore a backup into a data directory",
    "dump-log": "print the contents of a stopped broker's data directory",
    "doctor": "check a running broker or a data directory for problems",
    "completion": "print a shell completion script",
}

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


class Parser(argparse.ArgumentParser):
    """The parser of the command and, because argparse uses the same class, of its subcommands: errors are one line.

    Arguments may stand before, between and after flags: argparse by itself takes optional arguments as missing as soon as it meets a flag.
    """

    _is_mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._subparsers is not None or self._is_mixing:
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False

    def error(self, message: str) -> NoReturn:
        self.exit(REFUSED, f"kompat: {message} ({self.prog} --help shows the usage)\n")


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    try:
        args = parser_of(given[0] if given else None).parse_args(argv)
        gc.disable()  # nothing that the start builds becomes garbage
        run: Callable[[argparse.Namespace], int] = args.run
        return run(args)
    except KeyboardInterrupt:  # there is nothing to clean up yet
        return INTERRUPTED


def parser_of(command: str | None) -> argparse.ArgumentParser:
    """The parser of one command, without importing the others. If there is no such command, all are listed in one line each."""
    parser, commands = _root()
    if command in COMMANDS:
        add_command(commands, command)
    elif command != VERSION:
        for name, summary in COMMANDS.items():
            commands.add_parser(name, help=summary)
    return parser


def whole_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    parser, commands = _root()
    for name in COMMANDS:
        add_command(commands, name)
    return parser


def _root() -> tuple[argparse.ArgumentParser, Commands]:
    parser = Parser(prog="kompat", description="A Kafka broker in one process.")
    parser.add_argument(VERSION, action="version", version=f"kompat {__version__}")
    parser.set_defaults(run=lambda _: _help(parser))
    return parser, parser.add_subparsers(metavar="COMMAND")


def _help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return REFUSED


def add_command(commands: Commands, name: str) -> None:
    if name == "start":
        _add_start(commands)
    else:
        import_module(f"kompat.cli.{name.replace('-', '_')}").add(commands, COMMANDS[name])


def _add_start(commands: Commands) -> None:
    start = commands.add_parser(
        "start",
        help=COMMANDS["start"],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run a broker until SIGTERM. Flags override KOMPAT_… environment variables, which override the configuration file.",
        epilog=(
            "examples:\n"
            "  kompat start\n"
            "  kompat start --data /var/lib/kompat --host 0.0.0.0 --advertised kafka1:9092\n"
            "  kompat start --data :memory: --port 0 --http-port none\n"
            "  kompat start --config server.properties --set kompat.fsync=always"
        ),
    )
    start.add_argument("--host", help="address to listen on (127.0.0.1)")
    start.add_argument("--port", help="port of the Kafka listener (9092); 0 chooses a free port")
    start.add_argument(
        "--http-host", metavar="HOST", help="address of the HTTP port: REST, metrics and console (127.0.0.1)"
    )
    start.add_argument(
        "--http-port", metavar="PORT", help="the HTTP port (8080); 0 chooses a free port, none disables HTTP"
    )
    start.add_argument(
        "--data", metavar="DIR", help="data directory (./kompat-data); :memory: keeps all data in memory"
    )
    start.add_argument("--node-id", metavar="N", help="node id of this broker")
    start.add_argument(
        "--advertised", metavar="HOST:PORT", help="address that clients are to use (the address that they connected to)"
    )
    start.add_argument(
        "--cluster", metavar="N@HOST:PORT,…", help="initial brokers of a new cluster, or brokers of the cluster to join"
    )
    start.add_argument(
        "--cluster-listener", metavar="HOST:PORT", help="address for connections of other brokers (as in --cluster)"
    )
    start.add_argument(
        "--cluster-secret-file", metavar="FILE", help="file with the secret that the brokers of the cluster share"
    )
    start.add_argument("--config", metavar="FILE", help="properties file: one name=value on each line")
    start.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="set a configuration property")
    start.set_defaults(run=_start)


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
    from kompat.broker import Broker, Unstartable, run_until_signal
    from kompat.common import logs

    logs.set_up()
    _raise_file_limit()

    def ready(broker: Broker) -> None:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
        http = f" {broker.http_scheme} {broker.http}" if broker.http else ""
        print(f"kompat {__version__} ready: kafka {broker.address}{http}", flush=True)

    try:
        run_until_signal(config, ready)
    except Unstartable as error:
        return _refuse(error)
    return 0


def _raise_file_limit() -> None:
    """Raise the limit to what the system allows, as a JVM does: a broker has more files and clients than the usual 1024."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS reports "unlimited", but rejects it
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _refuse(error: Exception) -> int:
    print(f"kompat: {' '.join(str(error).split())}", file=sys.stderr)
    return REFUSED


if __name__ == "__main__":
    sys.exit(main())
