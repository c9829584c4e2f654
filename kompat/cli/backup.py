"""`kompat backup`: back up a running broker, list its backups, verify one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from kompat.cli.command import FAILED, CommandError, Parsers, add_http, add_json, declare, runs, subcommands
from kompat.cli.http_client import http_client
from kompat.cli.output import Column, output_of, size_text, time_text

LONG: Final = 3600.0  # seconds: there may be much to copy
COLUMNS: Final = (
    Column("NAME", "name"),
    Column("CREATED", "created", time_text),
    Column("BROKER", "nodeId"),
    Column("FILES", "files"),
    Column("SIZE", "bytes", size_text),
    Column("VERSION", "version"),
)


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "backup",
        summary,
        examples=[
            "kompat backup create monday",
            "kompat backup list",
            "kompat backup verify /var/backups/kompat/monday",
            "kompat restore /var/backups/kompat/monday --data ./kompat-data",
        ],
    )
    parts = subcommands(parser)
    create = declare(
        parts,
        "create",
        "back up a running broker",
        description="Back up a running broker to a directory below its kompat.backup.dir. The backup has all data that the broker had acknowledged.",
        examples=["kompat backup create monday --http http://broker-1:8080"],
    )
    create.add_argument("name", metavar="NAME", help="name of the new backup directory")
    add_http(create)
    add_json(create)
    runs(create, _create)
    listed = declare(parts, "list", "list the backups of a running broker", examples=["kompat backup list"])
    add_http(listed)
    add_json(listed)
    runs(listed, _list)
    verify = declare(
        parts,
        "verify",
        "verify a backup",
        description="Check all files of a backup and the checksums of all batches. The exit status is 1 if one of them is damaged.",
        examples=["kompat backup verify /var/backups/kompat/monday"],
    )
    verify.add_argument("directory", metavar="DIR", help="the backup directory")
    add_json(verify)
    runs(verify, _verify)


def _create(given: argparse.Namespace) -> None:
    made = http_client(given).post("/v1/backups", {"name": given.name}, seconds=LONG)
    size = size_text(made["bytes"])
    output_of(given).done(
        f"backup {made['name']} of broker {made['nodeId']} is complete: {made['files']} files, {size}", made
    )


def _list(given: argparse.Namespace) -> None:
    output_of(given).rows(COLUMNS, list(http_client(given).items("/v1/backups")), empty="There are no backups yet.")


def _verify(given: argparse.Namespace) -> int | None:
    from kompat.backup import copying as backup
    from kompat.cli.data_dir import DataDirectory
    from kompat.errors import StorageError

    directory = Path(given.directory)
    try:
        manifest = backup.check(directory)
    except StorageError as error:
        raise CommandError(str(error)) from None
    faults: list[str] = []
    partitions = batches = 0
    with DataDirectory(str(directory), is_strict=True) as data:
        for _ in data.read_all():
            pass
        for each in data.partitions():
            partitions += 1
            for found in data.batches(each.log):
                batches += 1
                if found.fault is not None:
                    faults.append(f"{each} offset {found.base_offset}: {found.fault}")
    summary: dict[str, Any] = {
        "name": directory.name,
        "created": manifest.created,
        "files": len(manifest.files),
        "bytes": manifest.size,
        "partitions": partitions,
        "batches": batches,
        "faults": faults,
    }
    message = f"{batches} batches in {partitions} partitions: " + (
        f"{len(faults)} are damaged" if faults else "all are intact"
    )
    output_of(given).done("\n".join((message, *faults)), summary)
    return FAILED if faults else None
