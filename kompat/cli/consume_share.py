"""`kompat consume --share`: read with a share group, and acknowledge each record after it is printed. By kompat's HTTP port."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, Final

from kompat.cli.formats import Shown
from kompat.cli.http_client import HttpClient, http_client, segment
from kompat.cli.shapes import record_of

BATCH: Final = 100
WAIT_MS: Final = 1000
FOLLOW_MS: Final = 20_000
MARGIN: Final = 15.0  # seconds that a response may take beyond the wait time of the request


def shared(given: argparse.Namespace) -> Iterator[Shown]:
    client = http_client(given)
    left = given.max
    while left:
        deliveries = acquire(
            client,
            given.topic,
            given.group,
            most=min(BATCH, left),
            wait_ms=FOLLOW_MS if given.follow else WAIT_MS,
            startAt="earliest" if given.from_beginning else "latest",
        )
        if not deliveries and not given.follow:
            return
        yield from _acknowledged(client, given, deliveries)
        left -= len(deliveries)


def _acknowledged(client: HttpClient, given: argparse.Namespace, deliveries: list[dict[str, Any]]) -> Iterator[Shown]:
    """Acknowledge the printed records, and release the others, which are delivered again at once."""
    printed: list[str] = []
    try:
        for each in deliveries:
            yield record_of(given.topic, each)
            printed.append(each["receipt"])
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        printed.clear()
        raise
    finally:
        rest = [each["receipt"] for each in deliveries if each["receipt"] not in set(printed)]
        if printed:
            acknowledge(client, given.topic, given.group, "ack", receipts=printed)
        if rest:
            acknowledge(client, given.topic, given.group, "nack", receipts=rest)


def queue_path(topic: str, group: str) -> str:
    return f"/v1/queues/{segment(topic)}/groups/{segment(group)}"


def acquire(
    client: HttpClient, topic: str, group: str, *, most: int, wait_ms: int, **more: Any
) -> list[dict[str, Any]]:
    body = {"max": most, "waitMs": wait_ms, **more}
    found = client.post(f"{queue_path(topic, group)}/acquire", body, seconds=wait_ms / 1000 + MARGIN)
    deliveries: list[dict[str, Any]] = found["deliveries"]
    return deliveries


def acknowledge(client: HttpClient, topic: str, group: str, action: str, **body: Any) -> list[dict[str, Any]]:
    """Acknowledge, release, reject or extend deliveries. Returns the outcome of each receipt."""
    results: list[dict[str, Any]] = client.post(f"{queue_path(topic, group)}/{action}", body)["results"]
    return results
