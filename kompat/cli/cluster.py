"""`kompat cluster`: run brokers on this machine, and look after the brokers of a cluster."""

from __future__ import annotations

from kompat.cli import cluster_start
from kompat.cli.command import Parsers, declare, subcommands


def add(commands: Parsers, summary: str) -> None:
    parser = declare(commands, "cluster", summary, examples=["kompat cluster start"])
    inner = subcommands(parser)
    cluster_start.add(inner)
