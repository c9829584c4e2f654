"""`kompat dump-log`: print the data directory of a stopped broker. Nothing in it changes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from kompat.cli.arguments import Place, count, partition
from kompat.cli.command import FAILED, Parsers, add_json, declare, runs
from kompat.cli.data_dir import DataDirectory, Found, Named
from kompat.cli.decoding import decoded, without_secrets
from kompat.cli.formats import Shown, as_line, fields
from kompat.cli.output import Column, Output, output_of, size_text, time_text
from kompat.cli.progress import Progress
from kompat.errors import DamagedData, KafkaError
from kompat.protocol.records import BatchHeader, Compression, control_type, iterate

LOGS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("START", "startOffset"),
    Column("END", "endOffset"),
    Column("BATCHES", "batches"),
    Column("SIZE", "bytes", size_text),
    Column("DAMAGED", "damaged"),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "dump-log",
        summary,
        description=(
            "Print the partitions in the data directory of a stopped broker (or in a copy of it), or the batches and records of "
            "one partition. The directory is not changed. Records of internal topics are decoded. The exit status is 1 if a "
            "batch is damaged."
        ),
        examples=[
            "kompat dump-log ./kompat-data",
            "kompat dump-log ./kompat-data orders/0",
            "kompat dump-log ./kompat-data orders/0 --offset 45678 --max 1 --json",
            "kompat dump-log ./kompat-data __consumer_offsets/12",
            "kompat dump-log ./kompat-data __cluster_metadata/0 --batches",
        ],
    )
    parser.add_argument("data", metavar="DIR", help="the data directory")
    parser.add_argument(
        "partition",
        nargs="?",
        type=partition,
        metavar="TOPIC/PARTITION",
        help="partition to print (default: list all partitions)",
    )
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="start at the batch with this offset")
    parser.add_argument("--max", type=count, metavar="N", help="maximum number of batches")
    parser.add_argument("--batches", action="store_true", help="print batches without their records")
    parser.add_argument(
        "--undecoded", action="store_true", help="print records of internal topics without decoding them"
    )
    add_json(parser)
    runs(parser, _dump)


def _dump(given: argparse.Namespace) -> int:
    output = output_of(given)
    with DataDirectory(given.data) as data:
        if given.partition is None:
            return _list(data, output)
        return _print(data, data.partition(*given.partition[:2]), given, output)


# -- all partitions ----------------------------------------------------------------------------------------------------
def _list(data: DataDirectory, output: Output) -> int:
    partitions = data.partitions()
    with Progress("reading", len(partitions)) as progress:
        rows = []
        for each in partitions:
            rows.append(summary_of(data, each))
            progress.add()
    output.rows(LOGS, rows)
    return FAILED if any(row["damaged"] for row in rows) else 0


def summary_of(data: DataDirectory, named: Named) -> dict[str, Any]:
    """The summary of a partition, after reading all of its batches."""
    number = size = damaged = 0
    start, end = None, None
    for batch in data.batches(named.log):
        number += 1
        size += batch.head.size
        damaged += batch.fault is not None
        start = batch.base_offset if start is None else start
        end = batch.head.last_offset + 1
    try:
        known = data.checkpoint(named.log)
    except DamagedData:
        known, damaged = None, damaged + 1
    if known is not None:
        start = max(start or 0, known.log_start_offset)
        end = max(end or 0, known.log_end_offset)
    return {
        "topic": named.topic,
        "partition": named.partition,
        "startOffset": start or 0,
        "endOffset": end or 0,
        "batches": number,
        "bytes": size,
        "damaged": damaged,
    }


# -- one partition -----------------------------------------------------------------------------------------------------
def _print(data: DataDirectory, named: Named, given: argparse.Namespace, output: Output) -> int:
    status = 0
    for batch in islice(data.batches(named.log, given.offset), given.max):
        header = described(batch)
        status = FAILED if batch.fault else status
        records = [] if given.batches else list(_records(named, batch, decodes=not given.undecoded))
        if output.is_json:
            output.line(json.dumps({**header, **({} if given.batches else {"records": records})}, ensure_ascii=False))
            continue
        output.line(_line(header))
        for record in records:
            output.line(f"  {_record_line(Place(named.topic, named.partition), record)}")
    return status


def described(batch: Found) -> dict[str, Any]:
    found: dict[str, Any] = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.head.last_offset,
        "position": batch.head.position,
        "size": batch.head.size,
        "maxTimestamp": batch.head.max_timestamp,
        "where": batch.where,
    }
    header = batch.header
    if header is not None:
        found |= _header(header)
        if header.is_control and batch.content is not None and batch.fault is None and header.record_count:
            kind = control_type(batch.content)
            found["control"] = kind.name if kind is not None else "OTHER"
    return found | ({"fault": batch.fault} if batch.fault else {})


def _header(header: BatchHeader) -> dict[str, Any]:
    return {
        "records": header.record_count,
        "leaderEpoch": header.leader_epoch,
        "compression": _codec(header.compression),
        "timestampType": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizon": header.delete_horizon,
        "crc": header.crc,
    }


def _codec(number: int) -> str:
    try:
        return Compression(number).name.lower()
    except ValueError:
        return str(number)


def _line(batch: dict[str, Any]) -> str:
    shown = {name: value for name, value in batch.items() if value is not None and value is not False and value != -1}
    shown["maxTimestamp"] = time_text(batch["maxTimestamp"])
    return "batch " + " ".join(f"{name}={value}" for name, value in shown.items())


def _records(named: Named, batch: Found, *, decodes: bool) -> Iterator[dict[str, Any]]:
    header = batch.header
    if batch.content is None or header is None or not header.record_count:
        return
    try:
        records = list(iterate(batch.content))
    except KafkaError:  # the batch's line has the fault
        return
    for each in records:
        words = decoded(named.topic, each) if decodes and not header.is_control else None
        bare = without_secrets(named.topic, each)
        shown = Shown(named.topic, named.partition, each.offset, each.timestamp, each.key, bare.value, each.headers)
        yield {**fields(shown), **({"decoded": words} if words is not None else {})}


def _record_line(place: Place, record: dict[str, Any]) -> str:
    if "decoded" in record:
        where = f"{place.topic}/{place.partition}/{record['offset']} {time_text(record['timestamp'])}"
        return f"{where} {json.dumps(record['decoded'], ensure_ascii=False)}"
    from kompat.cli.shapes import record_of

    return as_line(record_of(place.topic, record)).decode()
