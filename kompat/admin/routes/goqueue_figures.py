"""GoQueue's figures of delays, priorities and reliability, in its own shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kompat.admin import queueing
from kompat.admin.route import Call, Route
from kompat.admin.routes.goqueue import TAG, Told
from kompat.admin.spread import together
from kompat.errors import KafkaError
from kompat.security.acls import Kind, Operation

MOST_QUEUES = 200  # that are looked at for one answer
MOST_TOPICS = 200
LEVELS = ((9, 8), (7, 6, 5), (4,), (3, 2, 1), (0,))  # critical, high, normal, low, background


class DelayFigures(Told):
    total_pending: int
    undecided: int
    by_topic: dict[str, int]


class PartitionPriorities(Told):
    pending: list[int]


class TopicPriorities(Told):
    total_by_priority: list[int]
    partitions: dict[int, PartitionPriorities]


class PriorityFigures(Told):
    """What waits in lanes: critical, high, normal, low, background."""

    total_by_priority: list[int]
    topics: dict[str, TopicPriorities]


class AckFigures(Told):
    current_queued: int
    backing_off: int
    redelivered: int  # of what is not done with


class LockFigures(Told):
    current_in_flight: int


class LetterFigures(Told):
    total_routed: int
    routes_by_topic: dict[str, int]


class ReliabilityFigures(Told):
    """Of the queues that there are; where there are very many, of the first of them."""

    queues: int
    ack_manager: AckFigures
    visibility_tracker: LockFigures
    dlq: LetterFigures


async def delays(call: Call) -> DelayFigures:
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    topics = await call.services.delays.topics()
    found = await call.services.delays.statistics()
    return DelayFigures(
        total_pending=found.waiting,
        undecided=found.undecided,
        by_topic={name: each.waiting for name, each in sorted(topics.items())},
    )


async def priorities(call: Call) -> PriorityFigures:
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    topics = {}
    for name, partitions in sorted((await call.services.lanes.by_partition()).items()):
        pending = {
            number: PartitionPriorities(pending=_levels(depths)) for number, depths in sorted(partitions.items())
        }
        topics[name] = TopicPriorities(
            total_by_priority=_sum(each.pending for each in pending.values()), partitions=pending
        )
    return PriorityFigures(total_by_priority=_sum(each.total_by_priority for each in topics.values()), topics=topics)


def _levels(depths: Sequence[int]) -> list[int]:
    return [sum(depths[number] for number in level) for level in LEVELS]


def _sum(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip([0] * len(LEVELS), *rows, strict=True)]


async def reliability(call: Call) -> ReliabilityFigures:
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    names = await queueing.names(call)
    found = await together(queueing.figures(call, each) for each in names[:MOST_QUEUES])
    deliveries: Counter[int] = Counter()
    for each in found:
        deliveries.update(each.deliveries)
    letters: dict[str, int] = {}
    for topic in call.services.dead_letters.topics()[:MOST_TOPICS]:
        try:
            letters[topic] = (await call.services.dead_letters.statistics(topic)).letters
        except KafkaError:
            continue  # it has no leader at the moment
    return ReliabilityFigures(
        queues=len(names),
        ack_manager=AckFigures(
            current_queued=sum(each.available or 0 for each in found),
            backing_off=sum(each.backing_off or 0 for each in found),
            redelivered=sum(count for number, count in deliveries.items() if number > 1),
        ),
        visibility_tracker=LockFigures(current_in_flight=sum(each.in_flight or 0 for each in found)),
        dlq=LetterFigures(total_routed=sum(letters.values()), routes_by_topic=letters),
    )


ROUTES = [
    Route(
        method="GET", path="/v1/delay/stats", handle=delays, summary="Count what waits", tag=TAG, answer=DelayFigures,
    ),
    Route(
        method="GET", path="/v1/priority/stats", handle=priorities, summary="Count what waits in lanes, by priority",
        tag=TAG, answer=PriorityFigures,
    ),
    Route(
        method="GET", path="/v1/reliability/stats", handle=reliability,
        summary="Count what is in flight, comes again, or is a dead letter", tag=TAG, answer=ReliabilityFigures,
    ),
]  # fmt: skip
