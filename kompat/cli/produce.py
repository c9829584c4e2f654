"""`kompat produce`: send records to any broker of Kafka's protocol. Delays, priorities and the like are headers for kompat."""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from kompat.cli.arguments import duration, moment, setting
from kompat.cli.command import CommandError, Parsers, UsageError, add_kafka, declare, runs
from kompat.cli.kafka_client import error_text, opened
from kompat.cli.messages import Message, NoMessage, extension_headers, from_json, from_line
from kompat.cli.output import Output
from kompat.cli.progress import Progress

if TYPE_CHECKING:
    from kafka import KafkaProducer

IN_FLIGHT: Final = 10_000  # unacknowledged records
LARGEST: Final = 64 << 20
ACK_SECONDS: Final = 60
SETTINGS: Final = {"linger_ms": 5, "max_request_size": LARGEST, "max_block_ms": 15_000, "delivery_timeout_ms": 45_000}


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "produce",
        summary,
        description=(
            "Produce one record for each line of standard input or of files. The exit status is 0 when the broker has "
            "acknowledged all of them."
        ),
        examples=[
            "echo 'a table for two' | kompat produce orders",
            "kompat produce orders --key 42 --header source=web --value 'two coffees'",
            "kompat produce reminders --delay 3m --value 'tea is ready'",
            "kompat produce orders --priority critical --ttl 1m --value 'the shop is on fire'",
            "kompat produce photos --whole *.jpg",
            "kompat consume orders --from-beginning --format json | kompat produce copy --json",
        ],
    )
    parser.add_argument("topic")
    parser.add_argument("files", nargs="*", metavar="FILE", help="file to read; - is standard input")
    _add_contents(parser)
    _add_extension_flags(parser)
    parser.add_argument("--show", action="store_true", help="print TOPIC/PARTITION/OFFSET of each record")
    add_kafka(parser)
    runs(parser, _produce)


def _add_contents(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--value", action="append", metavar="TEXT", help="value to send instead of input; may be repeated"
    )
    parser.add_argument("--tombstone", action="store_true", help="send a tombstone: a null value for --key")
    parser.add_argument("--whole", action="store_true", help="send each file as one record")
    parser.add_argument("--key", metavar="TEXT", help="key of all records")
    parser.add_argument(
        "--key-separator", metavar="TEXT", help="text between the key and the value of a line; \\t is a tab"
    )
    parser.add_argument(
        "--header",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="header of all records; may be repeated",
    )
    parser.add_argument("--partition", type=int, metavar="N", help="partition (default: chosen by the key, else any)")
    parser.add_argument(
        "--timestamp", type=moment, metavar="TIME", help="timestamp: 2026-01-31T12:00:00Z, or ms since 1970"
    )
    parser.add_argument(
        "--json", action="store_true", help="read lines as JSON objects, in the format of `consume --format json`"
    )


def _add_extension_flags(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("for kompat")
    flags.add_argument("--delay", type=duration, metavar="DURATION", help="delay the delivery: 30s, 1h30m, or ms")
    flags.add_argument(
        "--at", type=moment, metavar="TIME", help="deliver at this time: 2026-01-31T12:00:00Z, or ms since 1970"
    )
    flags.add_argument("--priority", metavar="P", help="priority: 0 to 9, or critical, high, normal, low, background")
    flags.add_argument(
        "--ttl", type=duration, metavar="DURATION", help="time to live: the record expires after this time"
    )
    flags.add_argument("--message-id", metavar="TEXT", help="message id: the broker drops duplicates with the same id")
    flags.add_argument("--schedule-id", metavar="TEXT", help="schedule id: replace the delayed record with the same id")
    flags.add_argument("--trace", action="store_true", help="trace the record; `kompat trace` shows its trace")


# -- records -----------------------------------------------------------------------------------------------------------
def _defaults(given: argparse.Namespace) -> Message:
    if given.delay is not None and given.at is not None:
        raise UsageError("give only one of --delay and --at")
    headers = [(name, os.fsencode(value)) for name, value in given.header]
    headers += extension_headers(
        delay=given.delay,
        deliverAt=given.at,
        priority=given.priority,
        ttl=given.ttl,
        messageId=given.message_id,
        scheduleId=given.schedule_id,
    )
    if given.trace:
        headers.append(("kompat-trace", b"1"))
    return Message(
        value=None,
        key=os.fsencode(given.key) if given.key is not None else None,
        headers=headers,
        partition=given.partition,
        timestamp=given.timestamp,
    )


def _messages(given: argparse.Namespace, stack: ExitStack) -> Iterator[Message]:
    defaults = _defaults(given)
    separator = os.fsencode(given.key_separator.replace("\\t", "\t")) if given.key_separator else None
    if given.tombstone:
        yield defaults
        return
    contents = _given_values(given) if given.value is not None else _read(given, stack)
    for number, content in contents:
        try:
            yield from_json(content, defaults) if given.json else from_line(content, separator, defaults)
        except NoMessage as error:
            raise CommandError(f"line {number}: {error}") from None


def _given_values(given: argparse.Namespace) -> Iterator[tuple[int, bytes]]:
    yield from enumerate(map(os.fsencode, given.value), 1)  # bytes that are not text are sent as they are


def _read(given: argparse.Namespace, stack: ExitStack) -> Iterator[tuple[int, bytes]]:
    for name in given.files or ["-"]:
        try:
            file: BinaryIO = sys.stdin.buffer if name == "-" else stack.enter_context(open(name, "rb"))  # noqa: SIM115
        except OSError as error:
            raise CommandError(str(error)) from None
        if given.whole:
            yield 1, file.read()
            continue
        for number, line in enumerate(file, 1):
            content = line.removesuffix(b"\n").removesuffix(b"\r")
            if content or not given.json:
                yield number, content


def _check(given: argparse.Namespace) -> None:
    if given.value is not None and given.files:
        raise UsageError("--value does not go with files")
    if given.tombstone and (given.key is None or given.value is not None or given.files):
        raise UsageError("--tombstone needs --key, and neither --value nor files")
    if given.json and (given.whole or given.key_separator):
        raise UsageError("--json does not go with --whole or --key-separator")


# -- sending -----------------------------------------------------------------------------------------------------------
def _produce(given: argparse.Namespace) -> None:
    from kafka import KafkaProducer

    _check(given)
    producer = opened(given, KafkaProducer, KafkaProducer.DEFAULT_CONFIG, **SETTINGS)
    try:
        with ExitStack() as stack, Progress("sent", is_watched=not sys.stdin.isatty()) as progress:
            sender = _Sender(producer, given.topic, progress, Output(is_json=False) if given.show else None)
            for message in _messages(given, stack):
                sender.send(message)
            sender.finish()
    finally:
        producer.close(timeout=ACK_SECONDS)


class _Sender:
    """Sends records, and checks their acknowledgements in order."""

    def __init__(self, producer: KafkaProducer, topic: str, progress: Progress, shown: Output | None) -> None:
        self._producer = producer
        self._topic = topic
        self._progress = progress
        self._shown = shown
        self._waiting: deque[Any] = deque()
        self._count = 0

    def send(self, message: Message) -> None:
        try:
            future = self._producer.send(
                self._topic,
                value=message.value,
                key=message.key,
                headers=message.headers,
                partition=message.partition,
                timestamp_ms=message.timestamp,
            )
        except ValueError as error:  # invalid names and numbers
            raise CommandError(str(error)) from error
        self._waiting.append(future)
        while self._waiting and (self._waiting[0].is_done or len(self._waiting) > IN_FLIGHT):
            self._take()

    def finish(self) -> None:
        self._producer.flush(ACK_SECONDS)
        while self._waiting:
            self._take()

    def _take(self) -> None:
        from kafka.errors import KafkaError

        try:
            made = self._waiting.popleft().get(timeout=ACK_SECONDS)
        except KafkaError as error:
            raise CommandError(f"{self._topic}: record {self._count + 1} was rejected: {error_text(error)}") from error
        self._count += 1
        self._progress.to(self._count)
        if self._shown is not None:
            self._shown.line(f"{made.topic}/{made.partition}/{made.offset}")
