"""`kompat queue`: take records one by one, and say what became of them. By kompat's HTTP door."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from kompat.cli.arguments import count, duration
from kompat.cli.command import CommandError, Parsers, UsageError, add_http, add_json, declare, runs, subcommands
from kompat.cli.consume_share import acquire, queue_path, tell
from kompat.cli.formats import text
from kompat.cli.http_client import door
from kompat.cli.output import Column, output_of, time_text
from kompat.cli.shapes import bytes_of

DELIVERIES: Final = (
    Column("RECEIPT", "receipt"),
    Column("RECORD", "place"),
    Column("DELIVERIES", "deliveryCount"),
    Column("PRIORITY", "priority"),
    Column("LOCKED UNTIL", "lockedUntil", lambda at: time_text(at) if isinstance(at, int) else str(at or "-")),
    Column("KEY", "keyText"),
    Column("VALUE", "valueText"),
)
RESULTS: Final = (Column("RECEIPT", "receipt"), Column("OUTCOME", "outcome"))
QUEUES: Final = (
    Column("TOPIC", "topic"),
    Column("GROUP", "group"),
    Column("AVAILABLE", "available"),
    Column("IN FLIGHT", "inFlight"),
    Column("BACKING OFF", "backingOff"),
    Column(
        "BY CLASS",
        "depthByClass",
        lambda told: " ".join(f"{name}:{each}" for name, each in (told or {}).items() if each) or "-",
    ),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "queue",
        summary,
        description=(
            "Any topic is a queue to a share group: whoever acquires a record has it until it is acknowledged, or its "
            "lock ends. By kompat's HTTP door."
        ),
        examples=[
            "kompat queue acquire jobs --group workers --max 5",
            "kompat queue ack jobs --group workers RECEIPT",
            "kompat queue nack jobs --group workers RECEIPT --delay 30s",
            "kompat queue stats",
        ],
    )
    inner = subcommands(parser)
    _add_acquire(inner)
    _add_words(inner)
    stats = _command(
        inner,
        "stats",
        "how deep queues are",
        _stats,
        "kompat queue stats",
        "kompat queue stats jobs --group workers --json",
    )
    stats.add_argument("topic", nargs="?")
    stats.add_argument("--group", metavar="ID", help="only this share group")


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_http(parser)
    runs(parser, work)
    return parser


def _add_queue(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic")
    parser.add_argument("--group", metavar="ID", required=True, help="the share group")


def _add_acquire(inner: Parsers) -> None:
    parser = _command(
        inner,
        "acquire",
        "take records: they are yours until they are acknowledged, or their locks end",
        _acquire,
        "kompat queue acquire jobs --group workers",
        "kompat queue acquire jobs --group workers --max 10 --wait 20s --json",
    )
    _add_queue(parser)
    parser.add_argument("--max", type=count, default=1, metavar="N", help="at most so many (1)")
    parser.add_argument("--wait", type=duration, default=0, metavar="SPAN", help="for some to come, up to 60s (0)")
    parser.add_argument("--lock", type=duration, metavar="SPAN", help="how long they are yours (as the group has it)")
    parser.add_argument("--partition", type=int, metavar="N", help="only from this one")
    parser.add_argument(
        "--start-at", choices=("earliest", "latest"), help="where a group begins that is new (earliest)"
    )


def _add_words(inner: Parsers) -> None:
    for word, summary in (
        ("ack", "they are done"),
        ("nack", "let them come again"),
        ("reject", "they are no good: dead letters"),
        ("extend", "more time is needed"),
    ):
        parser = _command(
            inner,
            word,
            summary,
            _tell,
            f"kompat queue {word} jobs --group workers RECEIPT",
            f"kompat queue acquire jobs --group workers --json | kompat queue {word} jobs --group workers -",
        )
        parser.set_defaults(word=word)
        _add_queue(parser)
        parser.add_argument("receipts", nargs="+", metavar="RECEIPT", help="- reads what `acquire --json` printed")
        if word == "nack":
            parser.add_argument("--delay", type=duration, metavar="SPAN", help="not before that (as the group has it)")
        if word == "reject":
            parser.add_argument("--reason", metavar="TEXT", help="for the dead letters to tell")
        if word == "extend":
            parser.add_argument("--lock", type=duration, metavar="SPAN", help="for so long (as the group has it)")


# -- working -----------------------------------------------------------------------------------------------------------
def _acquire(given: argparse.Namespace) -> None:
    output = output_of(given)
    found = acquire(
        door(given),
        given.topic,
        given.group,
        most=given.max,
        wait_ms=given.wait,
        lockMs=given.lock,
        partition=given.partition,
        startAt=given.start_at,
    )
    if output.is_json:
        output.json({"deliveries": found})
        return
    rows = [
        {
            **each,
            "place": f"{given.topic}/{each['partition']}/{each['offset']}",
            "keyText": text(bytes_of(each, "key", "keyEncoding")) if each.get("key") is not None else None,
            "valueText": text(bytes_of(each, "value", "encoding")),
        }
        for each in found
    ]
    output.rows(DELIVERIES, rows, empty="There is nothing to take.")


def _receipts(given: argparse.Namespace) -> list[str]:
    if given.receipts != ["-"]:
        receipts: list[str] = given.receipts
        return receipts
    try:
        told = json.load(sys.stdin)
        return [each["receipt"] for each in told["deliveries"]]
    except (ValueError, KeyError, TypeError):
        raise CommandError("standard input is not what `kompat queue acquire --json` prints") from None


def _tell(given: argparse.Namespace) -> None:
    output = output_of(given)
    receipts = _receipts(given)
    if not receipts:
        raise CommandError("there are no receipts")
    more = {
        "nack": lambda: {"delay": given.delay},
        "reject": lambda: {"reason": given.reason},
        "extend": lambda: {"lockMs": given.lock},
    }.get(given.word, dict)()
    results = tell(door(given), given.topic, given.group, given.word, receipts=receipts, **more)
    for each in results:
        each["outcome"] = "ok" if each["ok"] else _reason(each.get("error"))
    output.rows(RESULTS, results)
    failed = sum(not each["ok"] for each in results)
    if failed:
        raise CommandError(
            f"{failed} of {len(results)} were refused: {next(e['outcome'] for e in results if not e['ok'])}"
        )


def _reason(error: Any) -> str:
    return str(error.get("detail") or error.get("title")) if isinstance(error, dict) else str(error)


def _stats(given: argparse.Namespace) -> None:
    at = door(given)
    if bool(given.topic) != bool(given.group):
        raise UsageError("a queue is a topic and its --group; without both, all are listed")
    found = [at.get(queue_path(given.topic, given.group))] if given.topic else list(at.items("/v1/queues"))
    output_of(given).rows(QUEUES, found, empty="There are no queues: a share group makes one of a topic.")
