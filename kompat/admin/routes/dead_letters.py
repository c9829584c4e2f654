"""Dead-letter records: browse, redrive, purge."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from kompat.admin.access import may_read, may_write
from kompat.admin.messages import HeaderShape, PartitionNumber, content
from kompat.admin.problems import invalid
from kompat.admin.producing import partitions_of
from kompat.admin.route import Call, Route
from kompat.admin.shapes import (
    DEFAULT_LIMIT,
    MOST_ITEMS,
    Answer,
    Body,
    Cursor,
    Encoding,
    Limit,
    Page,
    PageQuery,
    Query,
    Time,
    millis,
    page,
)
from kompat.common.slices import sliced
from kompat.errors import KafkaError
from kompat.extensions.dead_letters.redrive import DeadLetterRecord, Selection
from kompat.extensions.dead_letters.service import PREFIX
from kompat.security.acls import Kind, Operation
from kompat.types import Millis
from kompat.types import Offset as OffsetNumber

Name = Annotated[str, Meta(max_length=249)]
GroupName = Annotated[str, Meta(max_length=1024)]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Offsets = Annotated[
    dict[int, Annotated[list[Offset], Meta(max_length=MOST_ITEMS * 10)]],
    Meta(min_length=1, max_length=1000, description="offsets by partition of the dead-letter topic"),
]


class DeadLettersQuery(Query):
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | None = None
    partition: PartitionNumber | None = None
    topic: Annotated[Name | None, Meta(description="original topic")] = None
    group: GroupName | None = None
    cause: Annotated[str, Meta(max_length=1024, description="only causes that contain this text")] | None = None
    since: Time | None = None
    until: Time | None = None
    redriven: Annotated[bool, Meta(description="also records that have been redriven before")] = True


class Redrive(Body):
    """Fields that are not given do not restrict the selection; `all` confirms a selection without any."""

    all: bool = False
    offsets: Offsets | None = None
    topic: Name | None = None
    group: GroupName | None = None
    cause: Annotated[str, Meta(max_length=1024)] | None = None
    since: Time | None = None
    until: Time | None = None
    again: Annotated[bool, Meta(description="also records that have been redriven before")] = False


class Purge(Body):
    """A log is deleted from its start: all of it, the records before an offset or a time, or the redriven records at its start."""

    all: bool = False
    partition: PartitionNumber | None = None
    before: Offset | None = None
    until: Time | None = None
    only_redriven: bool = False


class DeadLetterTopic(Answer):
    topic: str
    records: int | None  # null if a partition has no leader
    redriven: int | None


class Origin(Answer):
    topic: str
    partition: int
    offset: int
    group: str
    deliveries: int | None
    cause: str


class DeadLetter(Answer):
    partition: int
    offset: int
    timestamp: int
    origin: Origin | None  # null: it is not a dead-letter record, but a record that a client has produced
    redrives: int  # how often the record had been redriven before
    is_redriven: bool
    key: str | None
    value: str | None
    headers: list[HeaderShape]
    key_encoding: Encoding | UnsetType = UNSET
    encoding: Encoding | UnsetType = UNSET


class Refused(Answer):
    partition: int
    offset: int
    reason: str


class Redriven(Answer):
    redriven: int
    repeated: int  # further dead-letter records of the same record
    refused: list[Refused]


class Purged(Answer):
    purged: int


async def list_topics(call: Call) -> Page[DeadLetterTopic]:
    names = call.services.authorizer.allowed(
        call.caller, Operation.DESCRIBE, Kind.TOPIC, call.services.dead_letters.topics()
    )
    chosen = await page(names, str, call.query.limit, call.query.cursor)
    return Page(items=[await _counted(call, name) for name in chosen.items], next_cursor=chosen.next_cursor)


async def _counted(call: Call, name: str) -> DeadLetterTopic:
    try:
        found = await call.services.dead_letters.statistics(name)
    except KafkaError:
        return DeadLetterTopic(topic=name, records=None, redriven=None)
    return DeadLetterTopic(topic=name, records=found.dead_letters, redriven=found.redriven)


async def browse(call: Call) -> Page[DeadLetter]:
    query: DeadLettersQuery = call.query
    topic = call.path["topic"]
    may_read(call, topic)
    selection = Selection(
        topic=query.topic,
        group_id=query.group,
        cause=query.cause,
        since=_time(query.since, "since"),
        until=_time(query.until, "until"),
        with_redriven=query.redriven,
    )
    found = await call.services.dead_letters.browse(
        topic, partition=query.partition, selection=selection, cursor=query.cursor, limit=query.limit
    )
    return Page(items=[await _dead_letter(each) async for each in sliced(found.items)], next_cursor=found.cursor)


async def _dead_letter(found: DeadLetterRecord) -> DeadLetter:
    known = found.origin
    origin = None
    if known is not None:
        origin = Origin(
            topic=known.topic,
            partition=known.partition,
            offset=known.offset,
            group=known.group_id,
            deliveries=known.deliveries,
            cause=known.cause,
        )
    return DeadLetter(
        partition=found.partition,
        offset=found.offset,
        timestamp=found.timestamp,
        origin=origin,
        redrives=found.redrives,
        is_redriven=found.is_redriven,
        **await content(found.record),
    )


async def redrive(call: Call) -> Redriven:
    body: Redrive = call.body
    topic = call.path["topic"]
    chosen = (body.offsets, body.topic, body.group, body.cause, body.since, body.until)
    if body.all == any(each is not None for each in chosen):
        raise invalid(
            'Select dead-letter records: {"all": true}, or some of offsets, topic, group, cause, since and until.'
        )
    may_read(call, topic)
    selection = Selection(
        offsets=None if body.offsets is None else {number: frozenset(each) for number, each in body.offsets.items()},
        topic=_target(call, topic, body.topic),
        group_id=body.group,
        cause=body.cause,
        since=_time(body.since, "since"),
        until=_time(body.until, "until"),
        with_redriven=body.again,
    )
    found = await call.services.dead_letters.redrive(topic, selection)
    refused = [Refused(partition=place[0], offset=place[1], reason=why) for place, why in found.failed.items()]
    return Redriven(redriven=found.count, repeated=found.repeated, refused=refused[:MOST_ITEMS])


def _target(call: Call, dead_letter_topic: str, wanted: str | None) -> str | None:
    """The target topic: with ACLs, one topic that the caller may write to."""
    if not call.services.authorizer.is_enabled:
        return wanted
    name = wanted if wanted is not None else dead_letter_topic.removeprefix(PREFIX)
    may_write(call, name)
    return name


async def purge(call: Call) -> Purged:
    body: Purge = call.body
    topic = call.path["topic"]
    if body.all == (body.before is not None or body.until is not None or body.only_redriven):
        raise invalid('Select dead-letter records: {"all": true}, or some of before, until and onlyRedriven.')
    call.require(Operation.DELETE, Kind.TOPIC, topic)
    await partitions_of(call, topic)
    count = await call.services.dead_letters.purge(
        topic,
        partition=body.partition,
        before=None if body.before is None else OffsetNumber(body.before),
        until=_time(body.until, "until"),
        only_redriven=body.only_redriven,
    )
    return Purged(purged=count)


def _time(given: int | str | None, field: str) -> Millis | None:
    return None if given is None else Millis(millis(given, field))


ROUTES = [
    Route(
        method="GET", path="/v1/dead-letters", handle=list_topics, summary="List dead-letter topics",
        tag="dead-letter records", query=PageQuery, answer=Page[DeadLetterTopic],
    ),
    Route(
        method="GET", path="/v1/dead-letters/{topic}/messages", handle=browse,
        summary="Browse dead-letter records, with their original topics and causes", tag="dead-letter records",
        query=DeadLettersQuery, answer=Page[DeadLetter],
    ),
    Route(
        method="POST", path="/v1/dead-letters/{topic}/redrive", handle=redrive,
        summary="Redrive dead-letter records: send them to their original topics again", tag="dead-letter records", body=Redrive,
        answer=Redriven, problems=(507,),
    ),
    Route(
        method="POST", path="/v1/dead-letters/{topic}/purge", handle=purge, summary="Delete dead-letter records permanently",
        tag="dead-letter records", body=Purge, answer=Purged, problems=(507,),
    ),
]  # fmt: skip
