"""`kompat users`: list, add and remove SCRAM users on any broker of Kafka's protocol."""

from __future__ import annotations

import argparse
import getpass
import hashlib
import os
import sys
from typing import Any, Final

from kompat.cli.arguments import count
from kompat.cli.command import CommandError, Parsers, add_json, add_kafka, declare, runs, subcommands
from kompat.cli.kafka_client import Kafka, check, connect
from kompat.cli.output import Column, output_of

MECHANISMS: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
NAMES: Final = {number: name for name, (number, _) in MECHANISMS.items()}
ITERATIONS: Final = 4096
SALT_BYTES: Final = 24
RESOURCE_NOT_FOUND: Final = 91
USERS: Final = (Column("USER", "user"), Column("MECHANISM", "mechanism"), Column("ITERATIONS", "iterations"))


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "users",
        summary,
        examples=[
            "kompat users list",
            "kompat users add alice --new-password-file ./alice.txt",
            "kompat users remove alice",
        ],
    )
    inner = subcommands(parser)
    _command(inner, "list", "list users and their SASL mechanisms", _list, "kompat users list --json")
    adding = _command(
        inner,
        "add",
        "add a user, or change the password of a user",
        _add,
        "kompat users add alice                                  # asks for the password",
        "kompat users add alice --new-password-file ./alice.txt --mechanism SCRAM-SHA-512",
    )
    adding.add_argument("name")
    adding.add_argument(
        "--new-password-file", metavar="FILE", help="file whose first line is the password; - is standard input"
    )
    adding.add_argument(
        "--iterations", type=count, default=ITERATIONS, metavar="N", help=f"iterations of the hash ({ITERATIONS})"
    )
    _add_mechanism(adding)
    removing = _command(inner, "remove", "remove a user", _remove, "kompat users remove alice")
    removing.add_argument("name")
    _add_mechanism(removing)


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_kafka(parser)
    runs(parser, work)
    return parser


def _add_mechanism(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mechanism", choices=list(MECHANISMS), action="append", help="only this mechanism (default: both)"
    )


def _list(given: argparse.Namespace) -> None:
    from kafka.protocol.admin import DescribeUserScramCredentialsRequest

    with connect(given) as kafka:
        answer = kafka.ask(DescribeUserScramCredentialsRequest(users=None))
    check(answer.error_code, answer.error_message, "users")
    rows = [
        {"user": each.user, "mechanism": NAMES.get(info.mechanism, info.mechanism), "iterations": info.iterations}
        for each in sorted(answer.results, key=lambda each: str(each.user))
        for info in each.credential_infos
    ]
    output_of(given).rows(USERS, rows, empty="There are no users: kompat users add NAME")


def _add(given: argparse.Namespace) -> None:
    secret = _new_password(given)
    with connect(given) as kafka:
        for name in given.mechanism or list(MECHANISMS):  # a request may name a user only once
            number, hashed = MECHANISMS[name]
            salt = os.urandom(SALT_BYTES)
            salted = hashlib.pbkdf2_hmac(hashed, secret.encode(), salt, given.iterations)
            _alter(kafka, upsertions=[(given.name, number, given.iterations, salt, salted)])
    output_of(given).done(f"user {given.name} is saved", {"added": given.name})


def _new_password(given: argparse.Namespace) -> str:
    if given.new_password_file == "-":  # noqa: S105 - that is no password
        secret = sys.stdin.readline().rstrip("\r\n")
    elif given.new_password_file:
        try:
            with open(given.new_password_file, encoding="utf-8") as file:
                secret = file.readline().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"the password cannot be read: {error}") from None
    elif sys.stdin.isatty():
        secret = getpass.getpass(f"password of {given.name}: ")
    else:
        raise CommandError("there is no terminal to ask for the password: use --new-password-file")
    if not secret:
        raise CommandError("a password cannot be empty")
    return secret


def _remove(given: argparse.Namespace) -> None:
    """Remove a user, who may have credentials of only one of the mechanisms."""
    wanted = given.mechanism or list(MECHANISMS)
    with connect(given) as kafka:
        found = [
            _alter(kafka, deletions=[(given.name, MECHANISMS[name][0])], may_miss=len(wanted) > 1) for name in wanted
        ]
    if not any(found):
        raise CommandError(f"user {given.name} does not exist")
    output_of(given).done(f"user {given.name} is removed", {"removed": given.name})


def _alter(kafka: Kafka, *, deletions: Any = (), upsertions: Any = (), may_miss: bool = False) -> bool:
    from kafka.protocol.admin import AlterUserScramCredentialsRequest

    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    for each in kafka.ask_controller(request).results:
        if may_miss and each.error_code == RESOURCE_NOT_FOUND:
            return False
        check(each.error_code, each.error_message, f"user {each.user}")
    return True
