"""`kompat delayed`: records that wait for their time. By kompat's HTTP door."""

from __future__ import annotations

import argparse
from typing import Any, Final

from kompat.cli.arguments import Place, count, duration, moment, place
from kompat.cli.command import Parsers, add_http, add_json, declare, runs, subcommands
from kompat.cli.formats import text
from kompat.cli.http_client import door, segment
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
            "Records that were sent with a delay or a time wait until then. Each is known by the place that its producer "
            "was told. By kompat's HTTP door."
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
    listing = _command(inner, "list", "what waits in a topic", _list, "kompat delayed list reminders --max 10")
    listing.add_argument("topic")
    listing.add_argument("--partition", type=int, metavar="N", help="only this one")
    listing.add_argument("--from", dest="after", type=moment, metavar="TIME", help="due then or later")
    listing.add_argument("--to", dest="before", type=moment, metavar="TIME", help="due before that")
    listing.add_argument("--max", type=count, default=100, metavar="N", help="at most so many (100)")
    show = _command(inner, "show", "one that waits", _show, "kompat delayed show reminders/0/45678")
    show.add_argument("record", type=place, metavar="TOPIC/PARTITION/OFFSET")
    stats = _command(inner, "stats", "how many wait, and what is due next", _stats, "kompat delayed stats reminders")
    stats.add_argument("topic", nargs="?")


def _add_changes(inner: Parsers) -> None:
    cancel = _command(inner, "cancel", "it will not be delivered", _cancel, "kompat delayed cancel reminders/0/45678")
    cancel.add_argument("record", type=place, metavar="TOPIC/PARTITION/OFFSET")
    again = _command(
        inner,
        "reschedule",
        "deliver it at another time",
        _reschedule,
        "kompat delayed reschedule reminders/0/45678 --delay 10m",
        "kompat delayed reschedule reminders/0/45678 --at 2030-01-31T12:00:00Z",
    )
    again.add_argument("record", type=place, metavar="TOPIC/PARTITION/OFFSET")
    when = again.add_mutually_exclusive_group(required=True)
    when.add_argument("--delay", type=duration, metavar="SPAN", help="from now on: 30s, 1h30m, or ms")
    when.add_argument("--at", type=moment, metavar="TIME", help="2030-01-31T12:00:00Z, or ms since 1970")


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_http(parser)
    runs(parser, work)
    return parser


def _path(record: Place) -> str:
    return f"/v1/topics/{segment(record.topic)}/delayed/{record.partition}/{record.offset}"


def _row(topic: str, told: dict[str, Any]) -> dict[str, Any]:
    return {
        **told,
        "place": f"{topic}/{told['partition']}/{told['offset']}",
        "keyText": text(bytes_of(told, "key", "keyEncoding")) if told.get("key") is not None else None,
        "valueText": text(bytes_of(told, "value", "encoding")),
    }


def _list(given: argparse.Namespace) -> None:
    output = output_of(given)
    asked = {"partition": given.partition, "from": given.after, "to": given.before}
    found = list(door(given).items(f"/v1/topics/{segment(given.topic)}/delayed", given.max, **asked))
    if output.is_json:
        output.json(found)
        return
    output.rows(WAITING, [_row(given.topic, each) for each in found], empty="Nothing waits.")


def _show(given: argparse.Namespace) -> None:
    _tell(given, door(given).get(_path(given.record)))


def _cancel(given: argparse.Namespace) -> None:
    _tell(given, door(given).ask("DELETE", _path(given.record)))


def _reschedule(given: argparse.Namespace) -> None:
    body = {"delay": given.delay, "deliverAt": given.at}
    _tell(given, door(given).ask("PATCH", _path(given.record), body=body))


def _tell(given: argparse.Namespace, found: dict[str, Any]) -> None:
    output = output_of(given)
    if output.is_json:
        output.json(found)
        return
    output.rows(WAITING, [_row(given.record.topic, found)])


def _stats(given: argparse.Namespace) -> None:
    output = output_of(given)
    found = door(given).get("/v1/delayed/statistics", topic=given.topic)
    if output.is_json:
        output.json(found)
        return
    output.pairs(
        [
            ("waiting", str(found["waiting"])),
            ("of transactions that have not ended", str(found["undecided"])),
            ("size", size_text(found["bytes"])),
            ("due next", found["nextDue"] or "-"),
        ]
    )
