"""`kompat quotas`: list and change quotas of users, client ids and IP addresses on any broker of Kafka's protocol."""

from __future__ import annotations

import argparse
from typing import Any, Final

from kompat.cli.arguments import setting
from kompat.cli.command import Parsers, UsageError, add_json, add_kafka, declare, runs, subcommands
from kompat.cli.kafka_client import check, connect
from kompat.cli.output import Column, output_of

ENTITIES: Final = ("user", "client-id", "ip")
QUOTAS: Final = (Column("FOR", "for"), Column("QUOTA", "quota"), Column("VALUE", "value"))


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "quotas",
        summary,
        examples=[
            "kompat quotas list",
            "kompat quotas set --for user=alice producer_byte_rate=1048576 consumer_byte_rate=2097152",
            "kompat quotas set --for user= request_percentage=50          # of users that have none of their own",
            "kompat quotas remove --for user=alice producer_byte_rate",
        ],
    )
    inner = subcommands(parser)
    _command(inner, "list", "list quotas", _list, "kompat quotas list --json")
    to_set = _command(
        inner, "set", "set quotas", _set, "kompat quotas set --for client-id=loader producer_byte_rate=1048576"
    )
    _add_entity(to_set)
    to_set.add_argument("quotas", nargs="+", type=setting, metavar="NAME=VALUE")
    to_remove = _command(
        inner, "remove", "remove quotas", _remove, "kompat quotas remove --for ip=10.0.0.7 connection_creation_rate"
    )
    _add_entity(to_remove)
    to_remove.add_argument("quotas", nargs="+", metavar="NAME")


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_kafka(parser)
    runs(parser, work)
    return parser


def _add_entity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="entity",
        type=setting,
        action="append",
        required=True,
        metavar="KIND=NAME",
        help="entity: user, client-id or ip; without a name the default entity; user and client-id may be combined",
    )


def _list(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import DescribeClientQuotasRequest

    with connect(given) as kafka:
        answer = kafka.ask(DescribeClientQuotasRequest(components=[], strict=False))
    check(answer.error_code, answer.error_message, "quotas")
    rows = [
        {
            "for": ", ".join(f"{part.entity_type}={part.entity_name or ''}" for part in entry.entity),
            "entity": {part.entity_type: part.entity_name for part in entry.entity},
            "quota": each.key,
            "value": int(each.value) if each.value == int(each.value) else each.value,
        }
        for entry in answer.entries or ()
        for each in entry.values
    ]
    output_of(given).rows(
        QUOTAS, sorted(rows, key=lambda row: (row["for"], row["quota"])), empty="There are no quotas."
    )


def _set(given: argparse.Namespace) -> None:
    operations = []
    for name, text in given.quotas:
        try:
            operations.append((name, float(text), False))
        except ValueError:
            raise UsageError(f"{name}={text}: the value must be a number") from None
    _alter(given, operations)
    output_of(given).done("set", {"set": dict(given.quotas)})


def _remove(given: argparse.Namespace) -> None:
    _alter(given, [(name, 0.0, True) for name in given.quotas])
    output_of(given).done("removed", {"removed": given.quotas})


def _alter(given: argparse.Namespace, operations: list[tuple[str, float, bool]]) -> None:
    from kafka.protocol.admin import AlterClientQuotasRequest

    for kind, _ in given.entity:
        if kind not in ENTITIES:
            raise UsageError(f"--for {kind}=: the entity type must be one of {', '.join(ENTITIES)}")
    entry = AlterClientQuotasRequest.EntryData
    entity = [entry.EntityData(entity_type=kind, entity_name=name or None) for kind, name in given.entity]
    altered = entry(
        entity=entity, ops=[entry.OpData(key=key, value=value, remove=gone) for key, value, gone in operations]
    )
    with connect(given) as kafka:
        for each in kafka.ask_controller(AlterClientQuotasRequest(entries=[altered], validate_only=False)).entries:
            check(each.error_code, each.error_message, "quotas")
