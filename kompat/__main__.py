"""The `kompat` command. Imports wait until they are needed: a broker has to be up within a blink."""

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
REFUSED = 2  # exit status of a start that cannot succeed until somebody changes something
VERSION = "--version"
GC_THRESHOLDS = (20_000, 20, 50)

# Each but the first is a module of kompat.cli; `-` is `_` there.
COMMANDS = {
    "start": "run a broker",
    "cluster": "run several brokers on this machine, and look after a cluster",
    "topics": "list, create, describe, configure, grow and delete topics",
    "produce": "send records",
    "consume": "read a topic",
    "groups": "list and describe groups, reset their offsets, delete them",
    "config": "settings of topics, brokers and groups",
    "users": "list, add and remove users",
    "acls": "list, add and remove access rules",
    "quotas": "list, set and remove quotas",
    "queue": "take records one by one, and say what became of them",
    "delayed": "look at records that wait for their time, cancel and reschedule them",
    "dlq": "dead letters: browse, put back, throw away",
    "trace": "tell the story of a record",
    "bench": "measure how fast a broker takes and gives records",
    "backup": "copy a running broker's data, and look whether a copy is whole",
    "restore": "make a data directory of a backup",
    "dump-log": "print what is in a stopped broker's data directory",
    "doctor": "check a data directory and a running broker, and say what is wrong",
    "completion": "print a script that completes commands in a shell",
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
    """Of the command and, as argparse has it, of all commands in it: what is wrong is told in one line.

    Arguments may stand before, between and after flags: argparse by itself gives up on those that may be missing as soon as it meets a
    flag.
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
        self.exit(REFUSED, f"kompat: {message} ({self.prog} --help tells more)\n")


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    try:
        args = parser_of(given[0] if given else None).parse_args(argv)
        gc.disable()  # nothing that is built during the start becomes garbage
        run: Callable[[argparse.Namespace], int] = args.run
        return run(args)
    except KeyboardInterrupt:  # before there was anything to tidy up
        return INTERRUPTED


def parser_of(command: str | None) -> argparse.ArgumentParser:
    """Of one command, if it is one: the others are not looked into. Of anything else, with a line for each."""
    parser, commands = _root()
    if command in COMMANDS:
        add_command(commands, command)
    elif command != VERSION:
        for name, summary in COMMANDS.items():
            commands.add_parser(name, help=summary)
    return parser


def whole_parser() -> argparse.ArgumentParser:
    """For those who have to know all commands."""
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
        description="Run a broker until SIGTERM. Flags win over KOMPAT_… variables, these over the file.",
        epilog=(
            "examples:\n"
            "  kompat start\n"
            "  kompat start --data /var/lib/kompat --host 0.0.0.0 --advertised kafka1:9092\n"
            "  kompat start --data :memory: --port 0 --http-port none\n"
            "  kompat start --config server.properties --set kompat.fsync=always"
        ),
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
        http = f" {broker.http_scheme} {broker.http}" if broker.http else ""
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
