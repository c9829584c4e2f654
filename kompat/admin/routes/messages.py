"""Messages: send, read by offset or time, search, show one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from kompat.admin.access import charge, may_read
from kompat.admin.messages import Message, NewMessage, PartitionNumber, duration, message, record_of
from kompat.admin.problems import Problem, ProblemShape, missing, problem_of
from kompat.admin.producing import Sent, partitions_of, produce
from kompat.admin.route import Call, Route
from kompat.admin.shapes import (
    DEFAULT_LIMIT,
    Answer,
    Body,
    Encoding,
    Limit,
    Page,
    Query,
    Time,
    millis,
    raw_bytes,
    rfc3339,
)
from kompat.admin.turns import AT_A_TIME, LONGEST_CURSOR, turn_of
from kompat.common.slices import sliced
from kompat.extensions.reads.service import ReadPage, ReadRange
from kompat.protocol.records import Record
from kompat.types import Millis

MOST_BYTES = 4 << 20
AFTER_ALL = 2**63 - 1

Where = Annotated[str, Meta(pattern="^(earliest|latest|[0-9]{1,18})$", description="earliest, latest or an offset")]
PageCursor = Annotated[str, Meta(max_length=LONGEST_CURSOR, description="`nextCursor` of the previous page")]
Isolation = Annotated[
    Literal["committed", "uncommitted"],
    Meta(description="isolation level: whether records of open and aborted transactions are read"),
]


class NewMessages(Body):
    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=10_000)]


class Result(Answer):
    """`error` is there if the message was rejected."""

    partition: int
    offset: int
    timestamp: int
    deliver_at: str | UnsetType = UNSET
    due_timestamp: int | UnsetType = UNSET
    error: ProblemShape | UnsetType = UNSET


class Results(Answer):
    results: list[Result]


class ReadQuery(Query):
    partition: PartitionNumber | None = None
    offset: Where | None = None
    limit: Limit = DEFAULT_LIMIT
    from_time: Time | None = None
    to_time: Time | None = None
    cursor: PageCursor | None = None
    key: str | None = None
    key_encoding: Encoding | UnsetType = UNSET
    search: (
        Annotated[str, Meta(max_length=1024, description="only messages with this text in their key, value or headers")]
        | None
    ) = None
    isolation: Isolation = "committed"
    direction: Literal["forward", "backward"] = "forward"
    max_bytes: Annotated[int, Meta(ge=1, le=MOST_BYTES)] = MOST_BYTES


class PartitionQuery(Query, rename={"max_bytes": "maxBytes"}):
    offset: Where | None = None
    limit: Limit = DEFAULT_LIMIT
    from_time: Time | None = None
    to_time: Time | None = None
    isolation: Isolation = "committed"
    max_bytes: Annotated[int, Meta(ge=1, le=MOST_BYTES)] = MOST_BYTES


class PartitionMessages(Answer):
    items: list[Message]
    next_offset: int
    next_cursor: str | None = None


# -- sending -----------------------------------------------------------------------------------------------------------
async def send(call: Call) -> Results:
    topic, given = call.path["topic"], call.body.messages
    count = await partitions_of(call, topic)
    now = call.services.clock.now()
    refused: dict[int, Problem] = {}
    records: dict[int, Record] = {}
    async for place, each in sliced(enumerate(given)):
        try:
            records[place] = await record_of(each, now)
        except Problem as problem:
            refused[place] = problem
    sent: dict[int, Sent] = {}
    if records:
        wanted = [given[place].partition for place in records]
        sent = dict(zip(records, await produce(call, topic, list(records.values()), wanted, count), strict=True))
    refused |= {place: problem_of(each.error) for place, each in sent.items() if each.error is not None}
    if len(refused) == len(given):
        raise refused[0]
    return Results(
        results=[
            _result(each, sent.get(place), refused.get(place), now) async for place, each in sliced(enumerate(given))
        ]
    )


def _result(given: NewMessage, sent: Sent | None, problem: Problem | None, now: int) -> Result:
    partition = sent.partition if sent is not None else -1
    if sent is None or problem is not None:
        error = problem.shape() if problem is not None else UNSET
        return Result(
            partition=partition, offset=-1, timestamp=sent.timestamp if sent is not None else now, error=error
        )
    due: int | UnsetType = UNSET
    if given.delay is not None:
        due = now + duration(given.delay, "delay")
    elif given.deliver_at is not None:
        due = max(now, millis(given.deliver_at, "deliverAt"))
    at = UNSET if isinstance(due, UnsetType) else rfc3339(due)
    return Result(partition=partition, offset=sent.offset, timestamp=sent.timestamp, deliver_at=at, due_timestamp=due)


# -- reading -----------------------------------------------------------------------------------------------------------
async def read(call: Call) -> Page[Message]:
    query: ReadQuery = call.query
    topic = call.path["topic"]
    may_read(call, topic)
    turn = turn_of(await partitions_of(call, topic), query.partition, query.cursor)
    found = await call.services.reads.read(
        _range(topic, turn.partitions, query),
        limit=query.limit,
        cursor=turn.cursor,
        keep=_wanted(query),
        backward=query.direction == "backward",
        max_bytes=call.room.reserve(query.max_bytes),
    )
    return Page(items=await _messages(call, found), next_cursor=turn.cursor_after(found.cursor))


async def _messages(call: Call, page: ReadPage) -> list[Message]:
    found = [await message(each.partition, each.record) async for each in sliced(page.records)]
    await charge(call, sum(each.size for each in found))
    return found


def _range(topic: str, partitions: Sequence[int], query: ReadQuery) -> ReadRange:
    first, end = _offsets(query)
    return ReadRange(
        topic=topic,
        partitions=partitions,
        from_offset=first,
        to_offset=end,
        from_time=_time(query.from_time, "fromTime"),
        to_time=_time(query.to_time, "toTime"),
        read_committed=query.isolation == "committed",
    )


def _offsets(query: ReadQuery) -> tuple[int | None, int | None]:
    """The range of offsets: from an offset upwards if forward, downwards if backward."""
    if query.direction == "backward":
        if query.offset == "earliest":
            return None, 0
        return None, None if query.offset in (None, "latest") else int(query.offset) + 1
    return _first(query.offset), None


def _first(where: str | None) -> int | None:
    if where == "latest":
        return AFTER_ALL
    return None if where in (None, "earliest") else int(where)


def _time(given: int | str | None, field: str) -> Millis | None:
    return None if given is None else Millis(millis(given, field))


def _wanted(query: ReadQuery) -> Callable[[Record], bool] | None:
    if query.key is None and not query.search:
        return None
    key = raw_bytes(query.key, query.key_encoding, "key")
    text = (query.search or "").encode("utf-8", "surrogatepass").lower()

    def is_wanted(record: Record) -> bool:
        if key is not None and record.key != key:
            return False
        return not text or any(text in part.lower() for part in _parts(record))

    return is_wanted


def _parts(record: Record) -> list[bytes]:
    found = [record.key or b"", record.value or b""]
    for name, value in record.headers:
        found += (name.encode(), value or b"")
    return found


async def read_partition(call: Call) -> PartitionMessages:
    query: PartitionQuery = call.query
    topic, partition = call.path["topic"], call.path["partition"]
    may_read(call, topic)
    wanted = ReadRange(
        topic=topic,
        partitions=[partition],
        from_offset=_first(query.offset),
        from_time=_time(query.from_time, "from_time"),
        to_time=_time(query.to_time, "to_time"),
        read_committed=query.isolation == "committed",
    )
    found = await call.services.reads.read(wanted, limit=query.limit, max_bytes=call.room.reserve(query.max_bytes))
    return PartitionMessages(
        items=await _messages(call, found), next_offset=found.next_offsets[partition], next_cursor=found.cursor
    )


async def read_one(call: Call) -> Message:
    topic, partition, offset = call.path["topic"], call.path["partition"], call.path["offset"]
    may_read(call, topic)
    wanted = ReadRange(topic=topic, partitions=[partition], from_offset=offset, to_offset=offset + 1)
    found = (await call.services.reads.read(wanted, limit=1)).records
    if not found:
        raise missing(
            f"There is no record at offset {offset} of partition {partition} of {topic}: it is not written yet, was deleted, "
            "is delayed, or the offset belongs to a transaction marker."
        )
    return await message(partition, found[0].record)


ROUTES = [
    Route(
        method="POST", path="/v1/topics/{topic}/messages", handle=send, summary="Produce messages",
        description="The response comes when the messages are written with acks=all. The result of each rejected message has the reason.",
        tag="messages", body=NewMessages, answer=Results, problems=(404, 413, 429, 507),
    ),
    Route(
        method="GET", path="/v1/topics/{topic}/messages", handle=read,
        summary="Read or search messages, by offset or time, forward or backward",
        description=f"Messages are in the order of their timestamps; of more than {AT_A_TIME} partitions, {AT_A_TIME} are read at a time. The work for a page is bounded: a page may be empty and still have a `nextCursor`.",
        tag="messages", query=ReadQuery, answer=Page[Message],
    ),
    Route(
        method="GET", path="/v1/topics/{topic}/partitions/{partition}/messages", handle=read_partition,
        summary="Read messages of one partition", tag="messages", query=PartitionQuery, answer=PartitionMessages,
    ),
    Route(
        method="GET", path="/v1/topics/{topic}/partitions/{partition}/messages/{offset}", handle=read_one,
        summary="Read one message", tag="messages", answer=Message,
    ),
]  # fmt: skip
