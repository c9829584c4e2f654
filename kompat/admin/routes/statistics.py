"""Live numbers for charts: counters since the start, and samples of the last seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from kompat.admin.broker_info import BrokerStatistics, ReadStatistics
from kompat.admin.fan_out import brokers, together
from kompat.admin.problems import check
from kompat.admin.route import Call, Route
from kompat.admin.sampling import COUNTERS, Sample
from kompat.admin.shapes import LATEST_TIME, Answer, Query
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import Kind, Operation
from kompat.types import NodeId

SECOND = 1000
TIMES = ("produce_p50", "produce_p99", "fetch_p50", "fetch_p99")


class StatisticsQuery(Query):
    since: Annotated[int, Meta(ge=0, le=LATEST_TIME, description="only samples after this time, in milliseconds")] = 0
    scope: Annotated[Literal["broker", "cluster"], Meta(description="this broker or all brokers")] = "broker"
    topics: Annotated[bool, Meta(description="also count by topic, on the broker that receives the request")] = False


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
    latency: Latency  # of the newest sample that has one
    samples: list[Sample]
    per_topic: dict[str, TopicCounters] | UnsetType = UNSET


async def statistics(call: Call) -> Statistics:
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    query = call.query
    nodes = brokers(call) if query.scope == "cluster" else [call.services.node_id]
    by_broker = {
        node: found for node, found in zip(nodes, await together(_ask(call, n) for n in nodes), strict=True) if found
    }
    if not by_broker:
        check(ErrorCode.BROKER_NOT_AVAILABLE, "No broker has responded.")
    samples = [each async for each in sliced(merged(found.samples for found in by_broker.values()))]
    last = samples[-1] if samples else None
    return Statistics(
        at=call.services.clock.now(),
        scope=query.scope,
        brokers=sorted(by_broker),
        **{name: sum(getattr(found.totals, name) for found in by_broker.values()) for name in COUNTERS},
        connections=last.connections if last is not None else call.services.meters.connections(),
        latency=Latency(**{name: _newest(samples, name) for name in TIMES}),
        samples=samples,
        per_topic=await _topics(call) if query.topics else UNSET,
    )


async def _ask(call: Call, node: NodeId) -> BrokerStatistics | None:
    try:
        return await call.services.cluster.rpc.call(node, ReadStatistics(call.query.since))
    except KafkaError:  # a broker that is down is left out
        return None


def merged(found: Iterable[list[Sample]]) -> Iterable[Sample]:
    """Merge the samples of several brokers by second: counters are added, and of latencies the highest is taken."""
    by_second: dict[int, Sample] = {}
    for samples in found:
        for sample in samples:
            known = by_second.get(sample.at // SECOND)
            by_second[sample.at // SECOND] = sample if known is None else _sum(known, sample)
    return (by_second[second] for second in sorted(by_second))


def _sum(one: Sample, other: Sample) -> Sample:
    added: dict[str, Any] = {name: getattr(one, name) + getattr(other, name) for name in (*COUNTERS, "connections")}
    for name in TIMES:
        added[name] = max(filter(None, (getattr(one, name), getattr(other, name))), default=None)
    return replace(one, **added)


def _newest(samples: list[Sample], name: str) -> float | None:
    return next((value for each in reversed(samples) if (value := getattr(each, name)) is not None), None)


async def _topics(call: Call) -> dict[str, TopicCounters]:
    meters = call.services.meters.topics
    return {
        name: TopicCounters(
            messages_in=meter.records_in,
            messages_out=meter.records_out,
            bytes_in=meter.bytes_in,
            bytes_out=meter.bytes_out,
        )
        async for name, meter in sliced(list(meters.items()))
    }


ROUTES = [
    Route(
        method="GET", path="/v1/statistics", handle=statistics, summary="Show counters, and samples of the last five minutes",
        tag="statistics", query=StatisticsQuery, answer=Statistics,
    ),
]  # fmt: skip
