"""`kompat consume --share`: records one by one, each acknowledged when it has left for the output. By kompat's HTTP door."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, Final

from kompat.cli.formats import Shown
from kompat.cli.http_client import Door, door, segment
from kompat.cli.shapes import record_of

BATCH: Final = 100
WAIT_MS: Final = 1000
FOLLOW_MS: Final = 20_000
MARGIN: Final = 15.0  # seconds that an answer may take beyond what it was to wait for


def shared(given: argparse.Namespace) -> Iterator[Shown]:
    at = door(given)
    left = given.max
    while left:
        deliveries = acquire(
            at,
            given.topic,
            given.group,
            most=min(BATCH, left),
            wait_ms=FOLLOW_MS if given.follow else WAIT_MS,
            startAt="earliest" if given.from_beginning else "latest",
        )
        if not deliveries and not given.follow:
            return
        yield from _acknowledged(at, given, deliveries)
        left -= len(deliveries)


def _acknowledged(at: Door, given: argparse.Namespace, deliveries: list[dict[str, Any]]) -> Iterator[Shown]:
    """What was printed is done; what was not comes again, at once."""
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
            tell(at, given.topic, given.group, "ack", receipts=printed)
        if rest:
            tell(at, given.topic, given.group, "nack", receipts=rest)


def queue_path(topic: str, group: str) -> str:
    return f"/v1/queues/{segment(topic)}/groups/{segment(group)}"


def acquire(at: Door, topic: str, group: str, *, most: int, wait_ms: int, **more: Any) -> list[dict[str, Any]]:
    body = {"max": most, "waitMs": wait_ms, **more}
    found = at.post(f"{queue_path(topic, group)}/acquire", body, seconds=wait_ms / 1000 + MARGIN)
    deliveries: list[dict[str, Any]] = found["deliveries"]
    return deliveries


def tell(at: Door, topic: str, group: str, word: str, **body: Any) -> list[dict[str, Any]]:
    """What became of deliveries: the outcome for each receipt."""
    results: list[dict[str, Any]] = at.post(f"{queue_path(topic, group)}/{word}", body)["results"]
    return results
