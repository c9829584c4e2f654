"""`kompat config`: show and change settings of topics, brokers and groups of any broker of Kafka's protocol."""

from __future__ import annotations

import argparse
from typing import Any, Final

from kompat.cli import configs
from kompat.cli.arguments import setting
from kompat.cli.command import Parsers, UsageError, add_json, add_kafka, declare, runs, subcommands
from kompat.cli.kafka_client import connect
from kompat.cli.output import Column, output_of

COLUMNS: Final = (
    Column("NAME", "name"),
    Column("VALUE", "value"),
    Column("FROM", "source"),
    Column("READ-ONLY", "isReadOnly"),
)
KINDS: Final = ("topic", "broker", "group")


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "config",
        summary,
        examples=[
            "kompat config describe topic orders",
            "kompat config set broker 1 log.retention.ms=86400000",
            "kompat config delete group workers share.record.lock.duration.ms",
        ],
    )
    inner = subcommands(parser)
    _add_describe(inner)
    _add_changes(inner)


def _add_describe(inner: Parsers) -> None:
    describe = _command(
        inner,
        "describe",
        "show the configuration: changed properties, or all of them",
        _describe,
        "kompat config describe topic orders --all",
        "kompat config describe broker 1",
        "kompat config describe broker                  # what holds for all brokers",
    )
    describe.add_argument("--all", action="store_true", help="also show defaults")


def _add_changes(inner: Parsers) -> None:
    change = _command(
        inner,
        "set",
        "set configuration properties",
        _set,
        "kompat config set topic orders retention.ms=3600000 cleanup.policy=compact",
        "kompat config set broker all log.retention.ms=86400000",
        "kompat config set group workers share.record.lock.duration.ms=60000",
        is_for_all=True,
    )
    change.add_argument("settings", nargs="+", type=setting, metavar="NAME=VALUE")
    delete = _command(
        inner,
        "delete",
        "reset configuration properties to their defaults",
        _delete,
        "kompat config delete topic orders retention.ms",
        is_for_all=True,
    )
    delete.add_argument("settings", nargs="+", metavar="NAME")


def _command(
    inner: Parsers, name: str, summary: str, work: Any, *examples: str, is_for_all: bool = False
) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    parser.add_argument("kind", choices=KINDS)
    text = "topic, group or broker id; `all` for all brokers"
    parser.add_argument("name", nargs=None if is_for_all else "?", default="all", help=text)
    add_json(parser)
    add_kafka(parser)
    runs(parser, work)
    return parser


def _name(given: argparse.Namespace) -> str:
    if given.kind == "broker" and given.name == "all":
        return ""
    if given.kind == "broker" and not given.name.isdecimal():
        raise UsageError(f"{given.name!r} is neither a broker id nor `all`")
    if given.name == "all":
        raise UsageError(f"give the name of a {given.kind}")
    name: str = given.name
    return name


def _describe(given: argparse.Namespace) -> None:
    name = _name(given)
    with connect(given) as kafka:
        if given.kind == "topic":
            kafka.topics([name])
        found = configs.describe(kafka, given.kind, name)
    shown = [each for each in found if given.all or not each["isDefault"]]
    output_of(given).rows(COLUMNS, shown, empty="All properties have their defaults; --all shows them.")


def _set(given: argparse.Namespace) -> None:
    with connect(given) as kafka:
        configs.change(kafka, given.kind, _name(given), given.settings, [])
    _done(given, [name for name, _ in given.settings])


def _delete(given: argparse.Namespace) -> None:
    with connect(given) as kafka:
        configs.change(kafka, given.kind, _name(given), [], given.settings)
    _done(given, given.settings)


def _done(given: argparse.Namespace, names: list[str]) -> None:
    done = {"kind": given.kind, "name": given.name, "changed": names}
    output_of(given).done(f"changed {', '.join(names)} of {given.kind} {given.name}", done)
