"""`kompat acls`: list, add and remove ACLs of any broker of Kafka's protocol."""

from __future__ import annotations

import argparse
from typing import Any, Final

from kompat.cli.command import CommandError, Parsers, UsageError, add_json, add_kafka, declare, runs, subcommands
from kompat.cli.kafka_client import check, connect
from kompat.cli.output import Column, output_of

ANY: Final = 1
RESOURCES: Final = {"topic": 2, "group": 3, "cluster": 4, "transactional-id": 5, "user": 7}
OPERATIONS: Final = {
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster-action": 9,
    "describe-configs": 10,
    "alter-configs": 11,
    "idempotent-write": 12,
}
PERMISSIONS: Final = {"deny": 2, "allow": 3}
LITERAL: Final = 3
PREFIXED: Final = 4
CLUSTER_NAME: Final = "kafka-cluster"
ACLS: Final = (
    Column("PERMISSION", "permission"),
    Column("PRINCIPAL", "principal"),
    Column("HOST", "host"),
    Column("OPERATION", "operation"),
    Column("RESOURCE", "resourceType"),
    Column("NAME", "resourceName"),
    Column("PATTERN", "pattern"),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "acls",
        summary,
        examples=[
            "kompat acls list",
            "kompat acls add --allow User:alice --operation read --operation describe --topic orders",
            "kompat acls add --allow User:alice --operation read --group billing- --prefix",
            "kompat acls remove --allow User:alice --topic orders",
        ],
    )
    inner = subcommands(parser)
    listing = _command(inner, "list", "list ACLs", _list, "kompat acls list --topic orders")
    _add_filter(listing)
    adding = _command(inner, "add", "add ACLs", _add, "kompat acls add --deny User:mallory --operation all --topic '*'")
    _add_filter(adding)
    removing = _command(
        inner, "remove", "remove matching ACLs", _remove, "kompat acls remove --allow User:alice --topic orders"
    )
    _add_filter(removing)


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_kafka(parser)
    runs(parser, work)
    return parser


def _add_filter(parser: argparse.ArgumentParser) -> None:
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--allow", metavar="PRINCIPAL", help="principal that is allowed: User:alice, or User:* for all users"
    )
    who.add_argument("--deny", metavar="PRINCIPAL", help="principal that is denied; deny overrides allow")
    parser.add_argument("--host", help="client host that the ACL applies to (*)")
    parser.add_argument("--operation", choices=list(OPERATIONS), action="append", help="may be repeated")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--topic", metavar="NAME", help="topic; * for all topics")
    what.add_argument("--group", metavar="NAME", help="group")
    what.add_argument("--transactional-id", metavar="NAME", help="transactional id")
    what.add_argument(
        "--for-user",
        metavar="NAME",
        dest="of_user",
        help="user, for operations on the user's credentials and delegation tokens",
    )
    what.add_argument("--cluster", action="store_true", help="the cluster")
    parser.add_argument(
        "--prefix", action="store_true", help="match all resources whose names start with the given name"
    )


def _resource(given: argparse.Namespace) -> tuple[str, str] | None:
    if given.cluster:
        return "cluster", CLUSTER_NAME
    named = {
        "topic": given.topic,
        "group": given.group,
        "transactional-id": given.transactional_id,
        "user": given.of_user,
    }
    return next(((kind, name) for kind, name in named.items() if name is not None), None)


def _filter(given: argparse.Namespace, operation: str | None) -> dict[str, Any]:
    resource = _resource(given)
    return {
        "resource_type_filter": RESOURCES[resource[0]] if resource else ANY,
        "resource_name_filter": resource[1] if resource else None,
        "pattern_type_filter": (PREFIXED if given.prefix else LITERAL) if resource else ANY,
        "principal_filter": given.allow or given.deny,
        "host_filter": given.host,
        "operation": OPERATIONS[operation] if operation else ANY,
        "permission_type": PERMISSIONS["allow"] if given.allow else PERMISSIONS["deny"] if given.deny else ANY,
    }


def _list(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import DescribeAclsRequest

    found = []
    with connect(given) as kafka:
        for operation in given.operation or [None]:
            answer = kafka.ask(DescribeAclsRequest(**_filter(given, operation)))
            check(answer.error_code, answer.error_message, "acls")
            found += [
                _row(resource.resource_type, resource.resource_name, resource.pattern_type, each)
                for resource in answer.resources
                for each in resource.acls
            ]
    rows = sorted(found, key=lambda row: (row["resourceType"], row["resourceName"], row["principal"]))
    output_of(given).rows(ACLS, rows, empty="There are no ACLs.")


def _row(resource_type: int, name: str, pattern: int, rule: Any) -> dict[str, Any]:
    return {
        "permission": _name(PERMISSIONS, rule.permission_type),
        "principal": rule.principal,
        "host": rule.host,
        "operation": _name(OPERATIONS, rule.operation),
        "resourceType": _name(RESOURCES, resource_type),
        "resourceName": name,
        "pattern": "prefix" if pattern == PREFIXED else "literal",
    }


def _name(known: dict[str, int], number: int) -> str:
    return next((name for name, value in known.items() if value == number), str(number))


def _add(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import CreateAclsRequest

    resource = _resource(given)
    if not (given.allow or given.deny) or not given.operation or resource is None:
        raise UsageError("an ACL needs --allow or --deny, --operation, and a resource: --topic, --group, …")
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=RESOURCES[resource[0]],
            resource_name=resource[1],
            resource_pattern_type=PREFIXED if given.prefix else LITERAL,
            principal=given.allow or given.deny,
            host=given.host or "*",
            operation=OPERATIONS[operation],
            permission_type=PERMISSIONS["allow" if given.allow else "deny"],
        )
        for operation in given.operation
    ]
    with connect(given) as kafka:
        for each in kafka.ask_controller(CreateAclsRequest(creations=creations)).results:
            check(each.error_code, each.error_message, "acl")
    output_of(given).done(f"added {len(creations)} ACLs", {"added": len(creations)})


def _remove(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import DeleteAclsRequest

    filters = [_filter(given, operation) for operation in given.operation or [None]]
    if filters[0]["principal_filter"] is None and filters[0]["resource_name_filter"] is None:
        raise UsageError("this would remove every ACL: give a principal or a resource")
    made = [DeleteAclsRequest.DeleteAclsFilter(**each) for each in filters]
    with connect(given) as kafka:
        results = kafka.ask_controller(DeleteAclsRequest(filters=made)).filter_results
    removed = []
    for result in results:
        check(result.error_code, result.error_message, "acls")
        removed += [
            _row(each.resource_type, each.resource_name, each.pattern_type, each) for each in result.matching_acls
        ]
    if not removed:
        raise CommandError("no ACL matches")
    output_of(given).rows(ACLS, removed)
