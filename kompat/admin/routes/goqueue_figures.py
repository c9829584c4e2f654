"""GoQueue's figures of delays, priorities and reliability, in its own JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kompat.admin import queueing
from kompat.admin.fan_out import together
from kompat.admin.route import Call, Route
from kompat.admin.routes.goqueue import TAG, GoQueueAnswer
from kompat.errors import KafkaError
from kompat.security.acls import Kind, Operation

MOST_QUEUES = 200  # that one response covers
MOST_TOPICS = 200
LEVELS = ((9, 8), (7, 6, 5), (4,), (3, 2, 1), (0,))  # critical, high, normal, low, background


class DelayFigures(GoQueueAnswer):
    total_pending: int
    undecided: int
    by_topic: dict[str, int]


class PartitionPriorities(GoQueueAnswer):
    pending: list[int]


class TopicPriorities(GoQueueAnswer):
    total_by_priority: list[int]
    partitions: dict[int, PartitionPriorities]


class PriorityFigures(GoQueueAnswer):
    """Records that wait in lanes: critical, high, normal, low, background."""

    total_by_priority: list[int]
    topics: dict[str, TopicPriorities]


class AckFigures(GoQueueAnswer):
    current_queued: int
    backing_off: int
    redelivered: int  # unacknowledged records with more than one delivery


class LockFigures(GoQueueAnswer):
    current_in_flight: int


class DeadLetterFigures(GoQueueAnswer):
    total_routed: int
    routes_by_topic: dict[str, int]


class ReliabilityFigures(GoQueueAnswer):
    """Figures of all queues; if there are very many, of the first ones."""

    queues: int
    ack_manager: AckFigures
    visibility_tracker: LockFigures
    dlq: DeadLetterFigures


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
    counts: dict[str, int] = {}
    for topic in call.services.dead_letters.topics()[:MOST_TOPICS]:
        try:
            counts[topic] = (await call.services.dead_letters.statistics(topic)).dead_letters
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
        dlq=DeadLetterFigures(total_routed=sum(counts.values()), routes_by_topic=counts),
    )


ROUTES = [
    Route(
        method="GET", path="/v1/delay/stats", handle=delays, summary="Count available records", tag=TAG, answer=DelayFigures,
    ),
    Route(
        method="GET", path="/v1/priority/stats", handle=priorities, summary="Count records in lanes, by priority",
        tag=TAG, answer=PriorityFigures,
    ),
    Route(
        method="GET", path="/v1/reliability/stats", handle=reliability,
        summary="Count records that are in flight, waiting for redelivery, or dead-letter records", tag=TAG, answer=ReliabilityFigures,
    ),
]  # fmt: skip
