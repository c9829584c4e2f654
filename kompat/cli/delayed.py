"""`kompat delayed`: list, show, cancel and reschedule delayed records, by kompat's HTTP port."""

from __future__ import annotations

import argparse
from typing import Any, Final

from kompat.cli.arguments import Place, count, duration, moment, place
from kompat.cli.command import Parsers, add_http, add_json, declare, runs, subcommands
from kompat.cli.formats import text
from kompat.cli.http_client import http_client, segment
from kompat.cli.output import Column, output_of, size_text, time_text
from kompat.cli.shapes import bytes_of

WAITING: Final = (
    Column("RECORD", "place"),
    Column("DUE", "dueTimestamp", time_text),
    Column("SCHEDULE ID", "scheduleId"),
    Column("STATE", "state"),
    Column("KEY", "keyText"),
    Column("VALUE", "valueText"),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "delayed",
        summary,
        description=(
            "The broker keeps delayed records until they are due. A delayed record is identified by the partition and offset that "
            "its producer received. These commands use kompat's HTTP port."
        ),
        examples=[
            "kompat delayed list reminders",
            "kompat delayed show reminders/0/45678",
            "kompat delayed reschedule reminders/0/45678 --delay 1h",
            "kompat delayed cancel reminders/0/45678",
            "kompat delayed stats",
        ],
    )
    inner = subcommands(parser)
    _add_looks(inner)
    _add_changes(inner)


def _add_looks(inner: Parsers) -> None:
    listing = _command(
        inner, "list", "list the delayed records of a topic", _list, "kompat delayed list reminders --max 10"
    )
    listing.add_argument("topic")
    listing.add_argument("--partition", type=int, metavar="N", help="only this partition")
    listing.add_argument("--from", dest="after", type=moment, metavar="TIME", help="due at this time or later")
    listing.add_argument("--to", dest="before", type=moment, metavar="TIME", help="due before this time")
    listing.add_argument("--max", type=count, default=100, metavar="N", help="maximum number of records (100)")
    show = _command(inner, "show", "show a delayed record", _show, "kompat delayed show reminders/0/45678")
    show.add_argument("record", type=place, metavar="TOPIC/PARTITION/OFFSET")
    stats = _command(
        inner,
        "stats",
        "count delayed records, and show when the next one is due",
        _stats,
        "kompat delayed stats reminders",
    )
    stats.add_argument("topic", nargs="?")


def _add_changes(inner: Parsers) -> None:
    cancel = _command(inner, "cancel", "cancel a delayed record", _cancel, "kompat delayed cancel reminders/0/45678")
    cancel.add_argument("record", type=place, metavar="TOPIC/PARTITION/OFFSET")
    again = _command(
        inner,
        "reschedule",
        "change the due time of a delayed record",
        _reschedule,
        "kompat delayed reschedule reminders/0/45678 --delay 10m",
        "kompat delayed reschedule reminders/0/45678 --at 2030-01-31T12:00:00Z",
    )
    again.add_argument("record", type=place, metavar="TOPIC/PARTITION/OFFSET")
    when = again.add_mutually_exclusive_group(required=True)
    when.add_argument("--delay", type=duration, metavar="DURATION", help="new delay from now: 30s, 1h30m, or ms")
    when.add_argument("--at", type=moment, metavar="TIME", help="new due time: 2030-01-31T12:00:00Z, or ms since 1970")


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_http(parser)
    runs(parser, work)
    return parser


def _path(record: Place) -> str:
    return f"/v1/topics/{segment(record.topic)}/delayed/{record.partition}/{record.offset}"


def _row(topic: str, record: dict[str, Any]) -> dict[str, Any]:
    return {
        **record,
        "place": f"{topic}/{record['partition']}/{record['offset']}",
        "keyText": text(bytes_of(record, "key", "keyEncoding")) if record.get("key") is not None else None,
        "valueText": text(bytes_of(record, "value", "encoding")),
    }


def _list(given: argparse.Namespace) -> None:
    output = output_of(given)
    query = {"partition": given.partition, "from": given.after, "to": given.before}
    found = list(http_client(given).items(f"/v1/topics/{segment(given.topic)}/delayed", given.max, **query))
    if output.is_json:
        output.json(found)
        return
    output.rows(WAITING, [_row(given.topic, each) for each in found], empty="There are no delayed records.")


def _show(given: argparse.Namespace) -> None:
    _print_one(given, http_client(given).get(_path(given.record)))


def _cancel(given: argparse.Namespace) -> None:
    _print_one(given, http_client(given).ask("DELETE", _path(given.record)))


def _reschedule(given: argparse.Namespace) -> None:
    body = {"delay": given.delay, "deliverAt": given.at}
    _print_one(given, http_client(given).ask("PATCH", _path(given.record), body=body))


def _print_one(given: argparse.Namespace, found: dict[str, Any]) -> None:
    output = output_of(given)
    if output.is_json:
        output.json(found)
        return
    output.rows(WAITING, [_row(given.record.topic, found)])


def _stats(given: argparse.Namespace) -> None:
    output = output_of(given)
    found = http_client(given).get("/v1/delayed/statistics", topic=given.topic)
    if output.is_json:
        output.json(found)
        return
    output.pairs(
        [
            ("waiting", str(found["waiting"])),
            ("of open transactions", str(found["undecided"])),
            ("size", size_text(found["bytes"])),
            ("next due", found["nextDue"] or "-"),
        ]
    )
