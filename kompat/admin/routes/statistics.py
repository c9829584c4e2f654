"""Live numbers for charts: counters since the start, and a sample of each of the last seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from kompat.admin.problems import check
from kompat.admin.route import Call, Route
from kompat.admin.sampling import COUNTERS
from kompat.admin.shapes import LATEST_TIME, Answer, Query
from kompat.admin.spread import brokers, together
from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import Kind, Operation
from kompat.types import NodeId

SECOND = 1000
TIMES = ("produce_p50", "produce_p99", "fetch_p50", "fetch_p99")


class StatisticsQuery(Query):
    since: Annotated[int, Meta(ge=0, le=LATEST_TIME, description="only samples after this time, in milliseconds")] = 0
    scope: Annotated[Literal["broker", "cluster"], Meta(description="of the broker that answers, or of all")] = "broker"
    topics: Annotated[bool, Meta(description="also count by topic, as the broker that answers has it")] = False


class StatisticsSample(Answer):
    """One second. Latencies are in milliseconds; null where there was no such request."""

    at: int
    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    requests: int
    errors: int
    connections: int
    produce_p50: float | None
    produce_p99: float | None
    fetch_p50: float | None
    fetch_p99: float | None


class Latency(Answer):
    produce_p50: float | None
    produce_p99: float | None
    fetch_p50: float | None
    fetch_p99: float | None


class TopicCounters(Answer):
    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int


class Statistics(Answer):
    at: int
    scope: Literal["broker", "cluster"]
    brokers: list[int]
    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    requests: int
    errors: int
    connections: int
    latency: Latency  # of the newest sample that has any
    samples: list[StatisticsSample]
    per_topic: dict[str, TopicCounters] | UnsetType = UNSET


async def statistics(call: Call) -> Statistics:
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    query = call.query
    nodes = brokers(call) if query.scope == "cluster" else [call.services.node_id]
    told = {
        node: found for node, found in zip(nodes, await together(_ask(call, n) for n in nodes), strict=True) if found
    }
    if not told:
        check(ErrorCode.BROKER_NOT_AVAILABLE, "No broker has answered.")
    samples = list(merged(found["samples"] for found in told.values()))
    last = samples[-1] if samples else None
    return Statistics(
        at=call.services.clock.now(),
        scope=query.scope,
        brokers=sorted(told),
        **{name: sum(found["totals"][name] for found in told.values()) for name in COUNTERS},
        connections=last.connections if last is not None else call.services.meters.connections(),
        latency=Latency(**{name: _newest(samples, name) for name in TIMES}),
        samples=samples,
        per_topic=_topics(call) if query.topics else UNSET,
    )


async def _ask(call: Call, node: NodeId) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = await call.telling.ask(node, "statistics", call.query.since)
    except KafkaError:  # one that is gone has nothing to add
        return None
    return found


def merged(told: Iterable[list[dict[str, Any]]]) -> Iterable[StatisticsSample]:
    """The samples of several brokers by the second: counts are added, of latencies the worst counts."""
    by_second: dict[int, dict[str, Any]] = {}
    for samples in told:
        for sample in samples:
            known = by_second.setdefault(sample["at"] // SECOND, sample)
            if known is not sample:
                for name in (*COUNTERS, "connections"):
                    known[name] += sample[name]
                for name in TIMES:
                    known[name] = max(filter(None, (known[name], sample[name])), default=None)
    return (StatisticsSample(**by_second[second]) for second in sorted(by_second))


def _newest(samples: list[StatisticsSample], name: str) -> float | None:
    return next((value for each in reversed(samples) if (value := getattr(each, name)) is not None), None)


def _topics(call: Call) -> dict[str, TopicCounters]:
    return {
        name: TopicCounters(
            messages_in=meter.records_in,
            messages_out=meter.records_out,
            bytes_in=meter.bytes_in,
            bytes_out=meter.bytes_out,
        )
        for name, meter in call.services.meters.topics.items()
    }


ROUTES = [
    Route(
        method="GET", path="/v1/statistics", handle=statistics, summary="Counters, and samples of the last five minutes",
        tag="statistics", query=StatisticsQuery, answer=Statistics,
    ),
]  # fmt: skip
