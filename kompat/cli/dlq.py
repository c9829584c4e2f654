"""`kompat dlq`: browse, redrive and purge dead-letter records, by kompat's HTTP port."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from kompat.cli.arguments import count, moment
from kompat.cli.command import (
    CommandError,
    Parsers,
    UsageError,
    add_http,
    add_json,
    add_yes,
    confirm,
    declare,
    runs,
    subcommands,
)
from kompat.cli.formats import text
from kompat.cli.http_client import HttpClient, http_client, segment
from kompat.cli.output import Column, output_of, time_text
from kompat.cli.shapes import bytes_of

TOPICS: Final = (Column("TOPIC", "topic"), Column("RECORDS", "records"), Column("REDRIVEN", "redriven"))
RECORDS_AT_ONCE: Final = 5000
RECORDS: Final = (
    Column("RECORD", "place"),
    Column("WRITTEN", "timestamp", time_text),
    Column("FROM", "from"),
    Column("GROUP", "group"),
    Column("DELIVERIES", "deliveries"),
    Column("REDRIVEN", "isRedriven"),
    Column("VALUE", "valueText"),
    Column("CAUSE", "cause", is_whole=True),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "dlq",
        summary,
        description=(
            "A record that a share group or queue could not process becomes a dead-letter record in a dead-letter topic "
            "(dlq.TOPIC). These commands use kompat's HTTP port."
        ),
        examples=[
            "kompat dlq topics",
            "kompat dlq browse dlq.orders --cause rejected",
            "kompat dlq redrive dlq.orders --group workers",
            "kompat dlq purge dlq.orders --only-redriven",
        ],
    )
    inner = subcommands(parser)
    _add_looks(inner)
    _add_redrive(inner)
    _add_purge(inner)


def _add_looks(inner: Parsers) -> None:
    _command(inner, "topics", "list dead-letter topics and count their records", _topics, "kompat dlq topics --json")
    browse = _command(inner, "browse", "show dead-letter records", _browse, "kompat dlq browse dlq.orders --max 20")
    _add_selection(browse)
    browse.add_argument("--max", type=count, default=100, metavar="N", help="maximum number of records (100)")


def _add_redrive(inner: Parsers) -> None:
    redrive = _command(
        inner,
        "redrive",
        "redrive dead-letter records: send them to their original topics again",
        _redrive,
        "kompat dlq redrive dlq.orders --all",
        "kompat dlq redrive dlq.orders --group workers --cause limit",
        "kompat dlq redrive dlq.orders --record 0/17 --record 0/18",
        "kompat dlq redrive dlq.orders --list dead-letters.jsonl",
    )
    _add_selection(redrive)
    redrive.add_argument("--all", action="store_true", help="all records that have not been redriven")
    redrive.add_argument("--again", action="store_true", help="also records that have been redriven before")
    redrive.add_argument(
        "--record", action="append", metavar="PARTITION/OFFSET", help="a single record; may be repeated"
    )
    redrive.add_argument(
        "--list", metavar="FILE", help="the records that `spark.dlq list` has written; - reads standard input"
    )


def _add_purge(inner: Parsers) -> None:
    purge = _command(
        inner,
        "purge",
        "delete dead-letter records permanently, the oldest first",
        _purge,
        "kompat dlq purge dlq.orders --until 2026-01-31T00:00:00Z",
        "kompat dlq purge dlq.orders --only-redriven",
    )
    purge.add_argument("topic")
    purge.add_argument("--all", action="store_true", help="all dead-letter records")
    purge.add_argument("--until", type=moment, metavar="TIME", help="records written before this time")
    purge.add_argument("--only-redriven", action="store_true", help="records up to the first that was not redriven")
    add_yes(purge)


def _command(inner: Parsers, name: str, summary: str, work: Any, *examples: str) -> argparse.ArgumentParser:
    parser = declare(inner, name, summary, examples=examples)
    add_json(parser)
    add_http(parser)
    runs(parser, work)
    return parser


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", help="the dead-letter topic")
    parser.add_argument("--from-topic", metavar="TOPIC", help="only records of this original topic")
    parser.add_argument("--group", metavar="ID", help="only records of this group")
    parser.add_argument("--cause", metavar="TEXT", help="only records whose cause contains this text")
    parser.add_argument("--since", type=moment, metavar="TIME", help="written at this time or later")
    parser.add_argument("--until", type=moment, metavar="TIME", help="written before this time")


def _selection(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "topic": given.from_topic,
        "group": given.group,
        "cause": given.cause,
        "since": given.since,
        "until": given.until,
    }


def _topics(given: argparse.Namespace) -> None:
    found = list(http_client(given).items("/v1/dead-letters"))
    output_of(given).rows(TOPICS, found, empty="There are no dead-letter topics.")


def _browse(given: argparse.Namespace) -> None:
    output = output_of(given)
    found = list(_records(http_client(given), given))
    if output.is_json:
        output.json(found)
        return
    output.rows(RECORDS, [_row(given.topic, each) for each in found], empty="There are no such dead-letter records.")


def _records(client: HttpClient, given: argparse.Namespace) -> Any:
    return client.items(f"/v1/dead-letters/{segment(given.topic)}/messages", given.max, **_selection(given))


def _row(topic: str, record: dict[str, Any]) -> dict[str, Any]:
    origin = record.get("origin") or {}
    known = {"place": f"{topic}/{record['partition']}/{record['offset']}", "isRedriven": record.get("isRedriven")}
    if origin:
        known["from"] = f"{origin['topic']}/{origin['partition']}/{origin['offset']}"
    return {**record, **origin, **known, "valueText": text(bytes_of(record, "value", "encoding"))}


def _redrive(given: argparse.Namespace) -> None:
    output = output_of(given)
    selection = {name: value for name, value in _selection(given).items() if value is not None}
    places = [*(given.record or ()), *_listed(given)]
    if bool(selection or places) == given.all:
        raise UsageError(
            "select dead-letter records: --all, or --record, --list, --group, --from-topic, --cause, --since, --until"
        )
    body = {"all": True} if given.all else selection
    if given.again:
        body["again"] = True
    bodies = [body | {"offsets": _offsets(part)} for part in _parts(places)] if places else [body]
    path = f"/v1/dead-letters/{segment(given.topic)}/redrive"
    found = _together([http_client(given).post(path, each, seconds=600) for each in bodies])
    refused = found["refused"]
    output.done(f"redriven: {found['redriven']}", found)
    if refused:
        first = refused[0]
        raise CommandError(
            f"{len(refused)} were not redriven; {first['partition']}/{first['offset']}: {first['reason']}"
        )


def _parts(places: list[str]) -> Iterable[list[str]]:
    """Parts that are small enough for one request."""
    return (places[start : start + RECORDS_AT_ONCE] for start in range(0, len(places), RECORDS_AT_ONCE))


def _together(answers: list[dict[str, Any]]) -> dict[str, Any]:
    counts = {name: sum(each[name] for each in answers) for name in ("redriven", "repeated")}
    return counts | {"refused": [refused for each in answers for refused in each.get("refused") or ()]}


def _listed(given: argparse.Namespace) -> list[str]:
    """The dead-letter records of this topic in a list."""
    if not given.list:
        return []
    if given.list == "-":
        return _of_topic(given.topic, "standard input", sys.stdin)
    try:
        with Path(given.list).open(encoding="utf-8") as lines:
            return _of_topic(given.topic, given.list, lines)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--list {given.list}: {error}") from error


def _of_topic(topic: str, name: str, lines: Iterable[str]) -> list[str]:
    found = []
    for number, line in enumerate(lines, 1):
        try:
            listed = json.loads(line)
            place = f"{listed['partition']:d}/{listed['offset']:d}"
            if listed["topic"] == topic:
                found.append(place)
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"{name}, line {number}: this is not a dead-letter record as `spark.dlq list` writes it"
            ) from error
    if not found:
        raise UsageError(f"{name} has no dead-letter records of {topic}")
    return found


def _offsets(places: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in places:
        partition, slash, offset = each.partition("/")
        if not slash or not partition.isdecimal() or not offset.isdecimal():
            raise UsageError(f"--record {each}: the format is PARTITION/OFFSET, such as 0/17")
        found.setdefault(partition, []).append(int(offset))
    return found


def _purge(given: argparse.Namespace) -> None:
    if given.all == (given.until is not None or given.only_redriven):
        raise UsageError("select dead-letter records: --all, --until TIME or --only-redriven")
    confirm(given, f"permanently delete dead-letter records of {given.topic}")
    body = {"all": given.all or None, "until": given.until, "onlyRedriven": given.only_redriven or None}
    found = http_client(given).post(f"/v1/dead-letters/{segment(given.topic)}/purge", body, seconds=600)
    output_of(given).done(f"purged: {found['purged']}", found)
