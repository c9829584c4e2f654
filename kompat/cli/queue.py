"""`kompat queue`: acquire records of share groups and acknowledge them one by one, by kompat's HTTP port."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from kompat.cli.arguments import count, duration
from kompat.cli.command import CommandError, Parsers, UsageError, add_http, add_json, declare, runs, subcommands
from kompat.cli.consume_share import acknowledge, acquire, queue_path
from kompat.cli.formats import text
from kompat.cli.http_client import http_client
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
        lambda counts: " ".join(f"{name}:{each}" for name, each in (counts or {}).items() if each) or "-",
    ),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "queue",
        summary,
        description=(
            "A share group uses a topic as a queue: a consumer acquires records, and each record is locked until the consumer "
            "acknowledges it or the acquisition lock times out. These commands use kompat's HTTP port."
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
        "show the number of records in queues, by state",
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
        "acquire records; they are locked until they are acknowledged or the lock times out",
        _acquire,
        "kompat queue acquire jobs --group workers",
        "kompat queue acquire jobs --group workers --max 10 --wait 20s --json",
    )
    _add_queue(parser)
    parser.add_argument("--max", type=count, default=1, metavar="N", help="maximum number of records (1)")
    parser.add_argument(
        "--wait", type=duration, default=0, metavar="DURATION", help="wait for records, at most 60s (0)"
    )
    parser.add_argument(
        "--lock", type=duration, metavar="DURATION", help="lock duration (the group's share.record.lock.duration.ms)"
    )
    parser.add_argument("--partition", type=int, metavar="N", help="acquire from this partition only")
    parser.add_argument("--start-at", choices=("earliest", "latest"), help="start offset of a new group (earliest)")


def _add_words(inner: Parsers) -> None:
    for word, summary in (
        ("ack", "acknowledge: accept the records"),
        ("nack", "release the records for redelivery"),
        ("reject", "reject the records: send them to the dead-letter topic"),
        ("extend", "renew the acquisition locks"),
    ):
        parser = _command(
            inner,
            word,
            summary,
            _acknowledge,
            f"kompat queue {word} jobs --group workers RECEIPT",
            f"kompat queue acquire jobs --group workers --json | kompat queue {word} jobs --group workers -",
        )
        parser.set_defaults(word=word)
        _add_queue(parser)
        parser.add_argument(
            "receipts", nargs="+", metavar="RECEIPT", help="receipt; - reads the output of `acquire --json`"
        )
        if word == "nack":
            parser.add_argument(
                "--delay", type=duration, metavar="DURATION", help="delay before redelivery (the group's back-off)"
            )
        if word == "reject":
            parser.add_argument("--reason", metavar="TEXT", help="reason that is stored in the dead-letter records")
        if word == "extend":
            parser.add_argument(
                "--lock",
                type=duration,
                metavar="DURATION",
                help="lock duration (the group's share.record.lock.duration.ms)",
            )


# -- acquire and acknowledge -------------------------------------------------------------------------------------------
def _acquire(given: argparse.Namespace) -> None:
    output = output_of(given)
    found = acquire(
        http_client(given),
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
    output.rows(DELIVERIES, rows, empty="There are no available records.")


def _receipts(given: argparse.Namespace) -> list[str]:
    if given.receipts != ["-"]:
        receipts: list[str] = given.receipts
        return receipts
    try:
        acquired = json.load(sys.stdin)
        return [each["receipt"] for each in acquired["deliveries"]]
    except (ValueError, KeyError, TypeError):
        raise CommandError("standard input is not the output of `kompat queue acquire --json`") from None


def _acknowledge(given: argparse.Namespace) -> None:
    output = output_of(given)
    receipts = _receipts(given)
    if not receipts:
        raise CommandError("no receipts are given")
    more = {
        "nack": lambda: {"delay": given.delay},
        "reject": lambda: {"reason": given.reason},
        "extend": lambda: {"lockMs": given.lock},
    }.get(given.word, dict)()
    results = acknowledge(http_client(given), given.topic, given.group, given.word, receipts=receipts, **more)
    for each in results:
        each["outcome"] = "ok" if each["ok"] else _reason(each.get("error"))
    output.rows(RESULTS, results)
    failed = sum(not each["ok"] for each in results)
    if failed:
        raise CommandError(
            f"{failed} of {len(results)} receipts were rejected: {next(e['outcome'] for e in results if not e['ok'])}"
        )


def _reason(error: Any) -> str:
    return str(error.get("detail") or error.get("title")) if isinstance(error, dict) else str(error)


def _stats(given: argparse.Namespace) -> None:
    client = http_client(given)
    if bool(given.topic) != bool(given.group):
        raise UsageError("give both a topic and --group, or neither to list all queues")
    found = [client.get(queue_path(given.topic, given.group))] if given.topic else list(client.items("/v1/queues"))
    output_of(given).rows(
        QUEUES, found, empty="There are no queues: a topic becomes a queue when a share group reads it."
    )
