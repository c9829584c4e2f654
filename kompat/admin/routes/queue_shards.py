"""Queue's list of partitions and their brokers, in its own JSON."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from kompat.admin.problems import check, missing
from kompat.admin.producing import partitions_of
from kompat.admin.route import Call, Route
from kompat.admin.routes.queue import TAG, Name
from kompat.common.slices import sliced
from kompat.protocol.messages import DescribeClusterRequest

MOST_SHARDS: Final = 10_000
PARTITIONS: Final = "PARTITIONS"


class ShardsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    topics: list[Name] = msgspec.field(default_factory=list)


class Broker(msgspec.Struct, kw_only=True):
    ID: int
    ReachKafkaAddress: str


class Shard(msgspec.Struct, kw_only=True):
    ShardType: str
    ShardID: int
    Topic: str
    PartitionID: str
    Brokers: list[Broker]


class Shards(msgspec.Struct, kw_only=True):
    shardInfo: dict[str, Shard]  # noqa: N815 - Queue's name
    brokers: list[Broker]
    leader: Broker | UnsetType = UNSET


async def shards_info(call: Call) -> Shards:
    response = await call.send(DescribeClusterRequest())
    check(response.error_code, response.error_message)
    brokers = {
        each.broker_id: Broker(ID=each.broker_id, ReachKafkaAddress=f"{each.host}:{each.port}")
        for each in response.brokers
    }
    shards: dict[str, Shard] = {}
    for name in call.query.topics or _topics(call):
        await partitions_of(call, name)
        async for place in sliced(_partitions(call, name)):
            shards[f"{name}-{place.index}"] = Shard(
                ShardType=PARTITIONS,
                ShardID=len(shards) + 1,
                Topic=name,
                PartitionID=f"{name}-{place.index}",
                Brokers=[brokers[node] for node in place.replicas if node in brokers],
            )
        if len(shards) >= MOST_SHARDS:
            break
    return Shards(shardInfo=shards, brokers=list(brokers.values()), leader=brokers.get(response.controller_id, UNSET))


def _topics(call: Call) -> list[str]:
    return sorted(topic.name for topic in call.services.cluster.topics() if not topic.internal)


def _partitions(call: Call, name: str) -> Any:
    found = call.services.cluster.topic(name)
    if found is None:
        raise missing(f"Topic {name} does not exist.")
    return found.partitions


ROUTES = [
    Route(
        method="GET", path="/shards-info", handle=shards_info, summary="Show the brokers of partitions",
        tag=TAG, query=ShardsQuery, answer=Shards, problems=(404,),
    ),
]  # fmt: skip
