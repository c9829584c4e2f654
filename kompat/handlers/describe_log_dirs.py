"""DescribeLogDirs (key 35, v1-5): how many bytes partitions take in the data directory, and what the disk has left.

Null topics asks for all partitions, no topics for the disk alone; what is not here is left out without an error.
A broker in memory has no disk: its sizes are -1, as Kafka's are where it cannot tell.
"""

from __future__ import annotations

import os
import shutil
from typing import TypeAlias

from kompat.errors import KafkaError
from kompat.handlers.base import Api, Context, Versions
from kompat.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from kompat.security.acls import Kind, Operation
from kompat.slices import sliced

UNKNOWN = -1
IN_MEMORY = ":memory:"

Result: TypeAlias = DescribeLogDirsResponse.DescribeLogDirsResult
TopicAnswer: TypeAlias = DescribeLogDirsResponse.DescribeLogDirsResult.DescribeLogDirsTopic
PartitionAnswer: TypeAlias = DescribeLogDirsResponse.DescribeLogDirsResult.DescribeLogDirsTopic.DescribeLogDirsPartition


async def handle(ctx: Context, req: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    ctx.services.authorizer.require(ctx, Operation.DESCRIBE, Kind.CLUSTER)
    data = ctx.services.config.data
    total, usable = _disk(data)
    sizes = await _sizes(ctx, req)
    return DescribeLogDirsResponse(
        results=[
            Result(
                log_dir=_directory(data),
                topics=[TopicAnswer(name=name, partitions=found) for name, found in sizes.items() if found],
                total_bytes=total,
                usable_bytes=usable,
            )
        ]
    )


async def _sizes(ctx: Context, req: DescribeLogDirsRequest) -> dict[str, list[PartitionAnswer]]:
    if req.topics is None:
        asked = [(t.name, range(len(t.partitions))) for t in ctx.services.cluster.topics()]
    else:
        asked = [(t.topic, t.partitions) for t in req.topics]
    sizes: dict[str, list[PartitionAnswer]] = {}
    async for name, indexes in sliced(asked):
        found = sizes.setdefault(name, [])
        for index in indexes:
            partition = ctx.services.logs.find(name, index)
            if partition is not None:
                found.append(
                    PartitionAnswer(
                        partition_index=index, partition_size=partition.size, offset_lag=0, is_future_key=False
                    )
                )
    return sizes


def _directory(data: str) -> str:
    return data if data == IN_MEMORY else os.path.abspath(data)


def _disk(data: str) -> tuple[int, int]:
    if data == IN_MEMORY:
        return UNKNOWN, UNKNOWN
    usage = shutil.disk_usage(data)
    return usage.total, usage.free


def failure(_: DescribeLogDirsRequest, error: KafkaError) -> DescribeLogDirsResponse:
    # Before v3 there is no error for the whole answer; Kafka's, too, is empty then.
    return DescribeLogDirsResponse(error_code=error.code, results=[])


API = Api(
    key=35,
    name="DescribeLogDirs",
    versions=Versions(1, 5),
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    handle=handle,
    failure=failure,
)
