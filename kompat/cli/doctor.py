"""`kompat doctor`: find problems, and advise what to do about them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from kompat.cli.command import FAILED, Parsers, add_http, add_json, add_kafka, declare, runs
from kompat.cli.findings import Finding, Level, is_well, lines
from kompat.cli.output import Output, output_of


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "doctor",
        summary,
        description=(
            "Without a directory, check a running broker and its cluster. With a directory, check every batch in the data "
            "directory of a stopped broker, without changing it. The exit status is 0 if there is no problem, else 1."
        ),
        examples=[
            "kompat doctor",
            "kompat doctor --bootstrap-server kafka1:9092 --http http://kafka1:8080",
            "kompat doctor --bootstrap-server apache:9092 --no-http",
            "kompat doctor ./kompat-data",
        ],
    )
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", help="data directory to check, instead of a running broker"
    )
    parser.add_argument("--no-http", action="store_true", help="do not check the HTTP port")
    add_json(parser)
    add_kafka(parser)
    add_http(parser, with_secrets=False)
    runs(parser, _doctor)


def _doctor(given: argparse.Namespace) -> int:
    output = output_of(given)
    found = []
    for each in _examined(given):
        found.append(each)
        if not output.is_json:
            for line in lines([each], for_eyes=output.is_terminal):
                output.line(line)
    if output.is_json:
        output.json({"healthy": is_well(found), "findings": [each.row for each in found]})
    else:
        _sum_up(output, found)
    return 0 if is_well(found) else FAILED


def _examined(given: argparse.Namespace) -> Iterator[Finding]:
    if given.directory is not None:
        from kompat.cli import doctor_data

        return doctor_data.examine(given.directory)
    from kompat.cli import doctor_broker

    return doctor_broker.examine(given)


def _sum_up(output: Output, found: list[Finding]) -> None:
    if not output.is_terminal:
        return
    wrong = sum(each.level is Level.WRONG for each in found)
    warned = sum(each.level is Level.WARNING for each in found)
    output.line()
    output.line(f"{wrong} errors, {warned} warnings" if wrong or warned else "There are no problems.")
