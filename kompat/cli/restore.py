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
            "Restore a backup into a data directory, for a broker with the same node id. The directory must be empty or must not "
            "exist. For a cluster, read docs/operations.md first."
        ),
        examples=["kompat restore /var/backups/kompat/monday --data ./kompat-data"],
    )
    parser.add_argument("backup", metavar="DIR", help="the backup directory")
    parser.add_argument("--data", metavar="DIR", required=True, help="data directory to create")
    add_json(parser)
    runs(parser, _restore)


def _restore(given: argparse.Namespace) -> None:
    from kompat.backup import copying as backup
    from kompat.errors import DamagedData, StorageError

    try:
        manifest = backup.restore(Path(given.backup), Path(given.data))
    except (StorageError, DamagedData) as error:
        raise CommandError(str(error)) from None
    summary = {
        "data": given.data,
        "created": manifest.created,
        "nodeId": manifest.node_id,
        "clusterId": manifest.cluster_id,
        "bytes": manifest.size,
    }
    size, made = size_text(manifest.size), time_text(manifest.created)
    output_of(given).done(f"{given.data} has the data of broker {manifest.node_id} of {made} ({size})", summary)
