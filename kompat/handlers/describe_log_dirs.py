"""DescribeLogDirs: how many bytes partitions take in the data directory, and what the disk has left.

Null topics mean all partitions, an empty list the disk alone; partitions without a replica here are left out without an error.
A broker in memory has no disk: its sizes are -1, as Kafka's are where they are unknown.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import TypeAlias

from kompat.common.slices import sliced
from kompat.errors import KafkaError
from kompat.handlers.support.base import Context, Handler
from kompat.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from kompat.security.acls import Kind, Operation

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
    requested: list[tuple[str, Sequence[int]]]
    if req.topics is None:
        requested = [(t.name, range(len(t.partitions))) for t in ctx.services.cluster.topics()]
    else:
        requested = [(t.topic, t.partitions) for t in req.topics]
    sizes: dict[str, list[PartitionAnswer]] = {}
    async for name, indexes in sliced(requested):
        found = sizes.setdefault(name, [])
        async for index in sliced(indexes):
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


HANDLER = Handler(DescribeLogDirsRequest, DescribeLogDirsResponse, handle, failure)
