"""`kompat restore`: make a data directory of a backup."""

from __future__ import annotations

import argparse
from pathlib import Path

from kompat.cli.command import CommandError, Parsers, add_json, declare, runs
from kompat.cli.output import output_of, size_text, time_text


def add(commands: Parsers, summary: str) -> None:
    parser = declare(
        commands,
        "restore",
        summary,
        description=(
            "Make a data directory of a backup, for a broker of the same number to start in. The directory must not be "
            "there, or be empty. In a cluster read docs/operations.md first."
        ),
        examples=["kompat restore /var/backups/kompat/monday --data ./kompat-data"],
    )
    parser.add_argument("backup", metavar="DIR", help="the backup")
    parser.add_argument("--data", metavar="DIR", required=True, help="the data directory to be made")
    add_json(parser)
    runs(parser, _restore)


def _restore(given: argparse.Namespace) -> None:
    from kompat.errors import DamagedData, StorageError
    from kompat.log import backup

    try:
        manifest = backup.restore(Path(given.backup), Path(given.data))
    except (StorageError, DamagedData) as error:
        raise CommandError(str(error)) from None
    told = {
        "data": given.data,
        "created": manifest.created,
        "nodeId": manifest.node_id,
        "clusterId": manifest.cluster_id,
        "bytes": manifest.size,
    }
    size, made = size_text(manifest.size), time_text(manifest.created)
    output_of(given).done(f"{given.data} has the data of broker {manifest.node_id} of {made} ({size})", told)
