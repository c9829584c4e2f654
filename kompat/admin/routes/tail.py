"""New messages of a topic, by server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import StreamingResponse

from kompat.admin.access import may_read
from kompat.admin.encoding import encoded
from kompat.admin.fan_out import EARLIEST, LATEST
from kompat.admin.following import Following, Placed, start_of
from kompat.admin.messages import PartitionNumber, message
from kompat.admin.problems import invalid, missing, problem_of
from kompat.admin.producing import partitions_of
from kompat.admin.route import Call, Route
from kompat.admin.routes.messages import Isolation
from kompat.admin.shapes import Query, millis
from kompat.admin.turns import AT_A_TIME
from kompat.common.slices import sliced
from kompat.errors import KafkaError

EVENTS = "text/event-stream"
FEW = 8  # partitions: up to so many, every event has the positions of all of them
RETRY_MS = 1000
LONGEST_ID = 8192
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}


class TailQuery(Query):
    partition: PartitionNumber | None = None
    from_: Annotated[str, Meta(max_length=64, description="latest, earliest, an offset, or an RFC 3339 time")] = (
        msgspec.field(default="latest", name="from")
    )
    isolation: Isolation = "committed"


async def tail(call: Call) -> StreamingResponse:
    query: TailQuery = call.query
    topic = call.path["topic"]
    may_read(call, topic)
    count = await partitions_of(call, topic)
    if query.partition is not None and query.partition >= count:
        raise missing(f"Partition {query.partition} of {topic} does not exist.")
    partitions = range(count) if query.partition is None else [query.partition]
    if len(partitions) > AT_A_TIME:
        raise invalid(f"{topic} has more than {AT_A_TIME} partitions. Give `partition` to follow one of them.")
    resumed = _resumed(call.request.headers.get("last-event-id", ""))
    call.streams.check()
    positions = {**await _start(call, topic, partitions, query.from_), **resumed}
    following = Following(
        call,
        topic,
        {partition: positions[partition] for partition in partitions},
        is_committed=query.isolation == "committed",
    )
    return StreamingResponse(_stream(call, following), media_type=EVENTS, headers=HEADERS)


async def _start(call: Call, topic: str, partitions: Sequence[int], where: str) -> dict[int, int]:
    if where.isascii() and where.isdigit() and len(where) <= 18:
        return dict.fromkeys(partitions, int(where))
    named = {"latest": LATEST, "earliest": EARLIEST}.get(where)
    timestamp = millis(where, "from") if named is None else named
    return dict(await start_of(call, topic, partitions, timestamp))


def _resumed(last_id: str) -> dict[int, int]:
    """The positions of a client that reconnects."""
    if not last_id:
        return {}
    found: dict[int, int] = {}
    for part in last_id.split(",") if len(last_id) <= LONGEST_ID else [""]:
        partition, _, offset = part.partition(":")
        if not (partition.isascii() and partition.isdigit() and len(partition) <= 10):
            raise invalid("Last-Event-ID does not belong to this stream. Omit it to start again.")
        if not (offset.isascii() and offset.isdigit() and len(offset) <= 18):
            raise invalid("Last-Event-ID does not belong to this stream. Omit it to start again.")
        found[int(partition)] = int(offset)
    return found


async def _stream(call: Call, following: Following) -> AsyncIterator[bytes]:
    rounds = following.rounds()
    try:
        with call.streams.slot():
            sent = dict(following.positions)
            yield b"retry: %d\nid: %s\n\n" % (RETRY_MS, _id(sent))
            async for placed in rounds:
                events = await _events(placed, sent, following.positions) if placed else b": still here\n\n"
                call.room.hold(len(events))
                yield events
            yield b"event: end\ndata: {}\n\n"
    except KafkaError as error:
        yield b"event: problem\ndata: %s\n\n" % msgspec.json.encode(problem_of(error).shape())
    finally:
        await rounds.aclose()


async def _events(placed: Sequence[Placed], sent: dict[int, int], positions: dict[int, int]) -> bytes:
    """A client that reconnects sends the last id that it got; with many partitions not every event has one."""
    out = bytearray()
    async for number, (partition, record) in sliced(enumerate(placed, 1)):
        sent[partition] = record.offset + 1
        if number == len(placed):
            sent.update(positions)
        if number == len(placed) or len(sent) <= FEW:
            out += b"id: %s\n" % _id(sent)
        parts = [part async for part in encoded(await message(partition, record))]
        out += b"".join((b"event: message\ndata: ", *parts, b"\n\n"))
    return bytes(out)


def _id(positions: dict[int, int]) -> bytes:
    return ",".join(f"{partition}:{offset}" for partition, offset in positions.items()).encode()


ROUTES = [
    Route(
        method="GET", path="/v1/topics/{topic}/tail", handle=tail, summary="Follow a topic by server-sent events",
        description="Every event is a message. A client that reconnects with Last-Event-ID continues where it stopped.",
        tag="messages", query=TailQuery, media=EVENTS,
    ),
]  # fmt: skip
