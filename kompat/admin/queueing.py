"""Queues as JSON: deliveries with their receipts, acknowledgements, and the depths of queues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, NamedTuple

from msgspec import UNSET, Meta, UnsetType

from kompat.admin.access import charge, may_take
from kompat.admin.messages import HeaderShape, content, size_of
from kompat.admin.problems import ProblemShape, problem_of
from kompat.admin.route import Call
from kompat.admin.shapes import Answer, Encoding
from kompat.cluster.queue_rules import SOURCE
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.headers import priority_of
from kompat.extensions.queues.service import Delivery
from kompat.extensions.queues.statistics import QueueStatistics
from kompat.security.acls import Kind, Operation
from kompat.share import receipts

MOST_WAIT_MS = 60_000
MOST_LOCK_MS = 86_400_000
MOST_DELIVERED = 1000
ACKNOWLEDGED_AT_ONCE = 200
MOST_BYTES = 4 << 20  # of an acquisition; a single record may be larger

Receipt = Annotated[str, Meta(min_length=1, max_length=receipts.LONGEST)]
Receipts = Annotated[list[Receipt], Meta(min_length=1, max_length=MOST_DELIVERED)]
LockMs = Annotated[int, Meta(ge=1, le=MOST_LOCK_MS, description="lock duration of the records")]
Reason = Annotated[str, Meta(max_length=1024, description="reason for the headers of the dead-letter record")]
Acknowledge = Callable[[Sequence[str]], Awaitable[list[KafkaError | None]]]


class Delivered(Answer):
    """A record that is acquired until its receipt is acknowledged, or until the lock expires."""

    receipt: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: list[HeaderShape]
    priority: int
    delivery_count: int
    lock_ms: int
    locked_until: int
    key_encoding: Encoding | UnsetType = UNSET
    encoding: Encoding | UnsetType = UNSET


class AcknowledgementResult(Answer):
    receipt: str
    ok: bool
    error: ProblemShape | UnsetType = UNSET


class Results(Answer):
    results: list[AcknowledgementResult]


class QueueFigures(Answer):
    """Numbers are null if a partition has no leader."""

    topic: str
    group: str
    queue_topic: str | None  # for clients without share groups
    available: int | None
    in_flight: int | None
    backing_off: int | None  # released, waiting for redelivery
    archiving: int | None  # the dead-letter records are being written
    depth_by_class: dict[int, int]  # of available records
    deliveries: dict[int, int]  # unacknowledged records by their number of deliveries


class QueueName(NamedTuple):
    topic: str
    group: str
    queue_topic: str | None = None


async def delivered(call: Call, delivery: Delivery) -> Delivered:
    record = delivery.record
    return Delivered(
        receipt=delivery.receipt,
        topic=delivery.topic,
        partition=delivery.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        priority=priority_of(record.headers),
        delivery_count=delivery.deliveries,
        lock_ms=delivery.lock_ms,
        locked_until=call.services.clock.now() + delivery.lock_ms,
        **await content(record),
    )


async def acquire(
    call: Call,
    group: str,
    topic: str,
    *,
    most: int,
    wait_ms: int,
    partition: int | None = None,
    lock_ms: int | None = None,
    begin: str = "earliest",
) -> list[Delivery]:
    """Acquire records. Returns none if the broker stops meanwhile."""
    may_take(call, topic, group)
    waiting = call.services.queues.acquire(
        group,
        topic,
        partition=partition,
        max_records=most,
        max_bytes=call.room.allowed(MOST_BYTES),
        max_wait_ms=wait_ms,
        lock_ms=lock_ms,
        begin=begin,
    )
    found: list[Delivery] = await call.unless_stopping(waiting) or []
    size = sum(size_of(each.record) for each in found)
    call.room.take(size)
    await charge(call, size)
    return found


async def acknowledge(
    call: Call, given: Sequence[str], action: Acknowledge, group: str | None = None, topic: str | None = None
) -> list[KafkaError | None]:
    """The error of each receipt, in order; None if it is acknowledged. `group`, `topic`: the receipts have to belong to them."""
    refused: dict[int, KafkaError] = {}
    async for place, text in sliced(enumerate(given)):
        try:
            _check(call, text, group, topic)
        except KafkaError as error:
            refused[place] = error
    good = [text for place, text in enumerate(given) if place not in refused]
    outcomes = iter([outcome async for some in sliced(batched(good)) for outcome in await action(some)])
    return [refused[place] if place in refused else next(outcomes) for place in range(len(given))]


def batched(given: Sequence[str]) -> list[Sequence[str]]:
    """Parts of the receipts, because acknowledging many at once would hold the event loop."""
    return [given[start : start + ACKNOWLEDGED_AT_ONCE] for start in range(0, len(given), ACKNOWLEDGED_AT_ONCE)]


def _check(call: Call, text: str, group: str | None, topic: str | None) -> None:
    receipt = receipts.decode(text)
    known = call.services.cluster.topic_by_id(receipt.partition.topic_id)
    if known is None:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "the topic of the receipt does not exist")
    if group not in (None, receipt.group_id) or topic not in (None, known.name):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the receipt belongs to group {receipt.group_id} and topic {known.name}"
        )
    may_take(call, known.name, receipt.group_id)


def results(given: Sequence[str], outcomes: Sequence[KafkaError | None]) -> Results:
    return Results(
        results=[
            AcknowledgementResult(
                receipt=text, ok=error is None, error=UNSET if error is None else problem_of(error).shape()
            )
            for text, error in zip(given, outcomes, strict=True)
        ]
    )


# -- depths ------------------------------------------------------------------------------------------------------------
async def names(call: Call) -> list[QueueName]:
    """The share groups and their topics, including queue topics, that the caller may describe."""
    cluster, authorizer = call.services.cluster, call.services.authorizer
    queue_topics = {topic.name: source for topic in cluster.topics() if (source := topic.configs.get(SOURCE))}
    found = {
        QueueName(source, name, name) for name, source in queue_topics.items() if cluster.topic(source) is not None
    }
    for group, topic_id in await call.services.shares.persister.topics():
        topic = cluster.topic_by_id(topic_id)
        if topic is not None:
            is_queue = queue_topics.get(group) == topic.name
            found.add(QueueName(topic.name, group, group if is_queue else None))
    groups = authorizer.allowed(call.caller, Operation.DESCRIBE, Kind.GROUP, {each.group for each in found})
    topics = authorizer.allowed(
        call.caller, Operation.DESCRIBE, Kind.TOPIC, {each.topic for each in found} | queue_topics.keys()
    )
    return sorted(
        (
            each if each.queue_topic in topics else each._replace(queue_topic=None)
            for each in found
            if each.group in groups and each.topic in topics
        ),
        key=lambda each: each[:2],
    )


async def figures(call: Call, name: QueueName) -> QueueFigures:
    try:
        found = await call.services.queues.statistics(name.group, name.topic)
    except KafkaError:
        return _figures(name, None)
    return _figures(name, found)


def _figures(name: QueueName, found: QueueStatistics | None) -> QueueFigures:
    return QueueFigures(
        topic=name.topic,
        group=name.group,
        queue_topic=name.queue_topic,
        available=None if found is None else found.available,
        in_flight=None if found is None else found.in_flight,
        backing_off=None if found is None else found.backing_off,
        archiving=None if found is None else found.archiving,
        depth_by_class={} if found is None else found.classes,
        deliveries={} if found is None else found.deliveries,
    )
