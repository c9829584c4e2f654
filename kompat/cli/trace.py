"""`kompat trace`: show the trace of a record, by kompat's HTTP port."""

from __future__ import annotations

import argparse
import shutil
from typing import Any, Final

from kompat.cli.arguments import count, moment, place
from kompat.cli.command import Parsers, UsageError, add_http, add_json, declare, runs
from kompat.cli.http_client import http_client, segment
from kompat.cli.output import Column, Output, output_of, time_text
from kompat.cli.timeline import drawn

PIPED_WIDTH: Final = 200
EVENTS: Final = (
    Column("TIME", "timestamp", time_text),
    Column("EVENT", "kind"),
    Column("RECORD", "record"),
    Column("TRACE", "traceId"),
    Column("GROUP", "group"),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "trace",
        summary,
        description=(
            "Show the trace of a record, found by its partition and offset, its trace id or its message id; or list trace events. "
            "The broker traces records that have the header kompat-trace or a sampled traceparent, and a sample of the records of "
            "topics with kompat.trace.sample. The command uses kompat's HTTP port."
        ),
        examples=[
            "kompat produce orders --trace --show --value 'a table for two'",
            "kompat trace orders/2/45678",
            "kompat trace 4bf92f3577b34da6a3ce929d0e0e4736",
            "kompat trace my-message-id",
            "kompat trace --topic orders --event DEAD_LETTERED --from 2026-01-31T00:00:00Z",
        ],
    )
    parser.add_argument(
        "record", nargs="?", metavar="RECORD", help="TOPIC/PARTITION/OFFSET, a trace id or a message id"
    )
    parser.add_argument("--topic", help="list events of this topic")
    parser.add_argument("--group", metavar="ID", help="list events of this group")
    parser.add_argument(
        "--event", metavar="NAME", help="list events of this type: PRODUCED, DELIVERED, DEAD_LETTERED, …"
    )
    parser.add_argument("--from", dest="after", type=moment, metavar="TIME", help="at this time or later")
    parser.add_argument("--to", dest="before", type=moment, metavar="TIME", help="before this time")
    parser.add_argument("--max", type=count, default=100, metavar="N", help="maximum number of events (100)")
    add_json(parser)
    add_http(parser)
    runs(parser, _trace)


def _trace(given: argparse.Namespace) -> None:
    wanted = {
        "topic": given.topic,
        "group": given.group,
        "event": given.event,
        "from": given.after,
        "to": given.before,
    }
    if given.record is None:
        if not any(value is not None for value in wanted.values()):
            raise UsageError(
                "give a record (TOPIC/PARTITION/OFFSET, a trace id or a message id), or --topic, --event, …"
            )
        _events(given, wanted)
        return
    if any(value is not None for value in wanted.values()):
        raise UsageError("--topic, --group, --event and times list events: they do not go with a record")
    _timelines(given)


def _timelines(given: argparse.Namespace) -> None:
    client, output = http_client(given), output_of(given)
    if "/" in given.record:
        try:
            found = place(given.record)
        except argparse.ArgumentTypeError as error:
            raise UsageError(str(error)) from None
        path = f"/v1/topics/{segment(found.topic)}/partitions/{found.partition}/messages/{found.offset}/trace"
    else:
        path = f"/v1/traces/{segment(given.record)}"
    answer = client.get(path)
    if output.is_json:
        output.json(answer)
        return
    _draw(output, answer.get("traces", [answer]))


def _draw(output: Output, traces: list[dict[str, Any]]) -> None:
    width = shutil.get_terminal_size().columns if output.is_terminal else PIPED_WIDTH
    for at, each in enumerate(traces):
        if at:
            output.line()
        for line in drawn(each, width):
            output.line(line)


def _events(given: argparse.Namespace, wanted: dict[str, Any]) -> None:
    found = list(http_client(given).items("/v1/traces", given.max, **wanted))
    output_of(given).rows(EVENTS, found, empty="There are no such events.")
