"""Produces messages to the leaders of their partitions, in as few requests as possible."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kompat.admin.messages import size_of
from kompat.admin.problems import invalid
from kompat.admin.route import Call
from kompat.common.slices import sliced
from kompat.errors import ErrorCode, KafkaError
from kompat.protocol.messages import MetadataRequest
from kompat.protocol.murmur2 import murmur2
from kompat.protocol.produce import PartitionData, ProduceRequest, TopicData
from kompat.protocol.records import Record, build_batch
from kompat.types import ZERO_UUID, NodeId

ALL = -1
PATIENCE_MS = 30_000
BATCH_BYTES = 512 << 10  # half of the default of max.message.bytes
BATCH_RECORDS = 1000  # building and validating a batch holds the event loop
RECORD_BYTES = 32  # overhead of a record

_turns = itertools.count()  # requests without keys use the partitions in turn


class Sent(NamedTuple):
    partition: int
    offset: int
    timestamp: int
    error: KafkaError | None = None


async def partitions_of(call: Call, topic: str, *, create: bool = False) -> int:
    """The number of partitions, if the caller may describe the topic. `create`: create it, if auto.create.topics.enable allows it."""
    requested = [MetadataRequest.MetadataRequestTopic(name=topic)]
    response = await call.send(MetadataRequest(topics=requested, allow_auto_topic_creation=create))
    found = response.topics[0]
    if found.error_code == ErrorCode.LEADER_NOT_AVAILABLE and create:
        known = call.services.cluster.topic(topic)  # it has just been created
        if known is not None:
            return len(known.partitions)
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {topic} does not exist.")
    if found.error_code:
        raise KafkaError(ErrorCode(found.error_code))
    return len(found.partitions)


async def produce(
    call: Call, topic: str, records: Sequence[Record], partitions: Sequence[int | None], count: int
) -> list[Sent]:
    """The outcomes in order. `partitions` has the partition of each record, or None for that of its key; `count` is the topic's number of partitions."""
    turn = next(_turns) % count
    by_partition: dict[int, list[int]] = defaultdict(list)
    async for place, (record, wanted) in sliced(enumerate(zip(records, partitions, strict=True))):
        if wanted is not None and wanted >= count:
            raise invalid(f"{topic} has no partition {wanted}: it has {count} partitions, numbered from 0.")
        by_partition[partition_for(record.key, count, turn) if wanted is None else wanted].append(place)
    by_leader: dict[NodeId, dict[int, list[int]]] = defaultdict(dict)
    outcomes: dict[int, Sent] = {}
    for partition, places in by_partition.items():
        try:
            by_leader[await call.requests.to_leader(topic, partition)][partition] = places
        except KafkaError as error:
            outcomes.update({place: Sent(partition, -1, records[place].timestamp, error) for place in places})
    sent = await asyncio.gather(*(_send(call, node, topic, records, led) for node, led in by_leader.items()))
    for each in sent:
        outcomes.update(each)
    return [outcomes[place] for place in range(len(records))]


def partition_for(key: bytes | None, count: int, turn: int) -> int:
    """The partition of a key, as in Kafka's own clients."""
    if key is None:
        return turn
    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % count


async def _send(
    call: Call, node: NodeId, topic: str, records: Sequence[Record], led: Mapping[int, Sequence[int]]
) -> dict[int, Sent]:
    """Send batches one after the other, so that each partition's records stay in order."""
    waiting = {partition: deque(_chunks(records, places)) for partition, places in led.items()}
    found: dict[int, Sent] = {}
    while waiting:
        heads = {partition: chunks[0] for partition, chunks in waiting.items()}
        data = [PartitionData(partition, _batch([records[p] for p in places])) for partition, places in heads.items()]
        request = ProduceRequest(None, ALL, PATIENCE_MS, [TopicData(topic, ZERO_UUID, data)])
        for answer in (await call.send(request, to=node)).responses[0].partition_responses:
            chunks, places = waiting[answer.index], heads[answer.index]
            refused, again = _completed(answer, places)
            found.update({places[step]: _outcome(answer, step, records[places[step]]) for step in refused})
            chunks.popleft()
            chunks.extendleft(reversed(again))
            if not chunks:
                del waiting[answer.index]
    return found


def _completed(answer: Any, places: list[int]) -> tuple[Sequence[int], list[list[int]]]:
    """The records of a batch that are done, and the batches to send again: Kafka accepts or rejects a batch as a whole."""
    everything = range(len(places))
    bad = {each.batch_index for each in answer.record_errors or ()}
    if answer.error_code and 0 < len(bad) < len(places):  # the other records are valid
        return sorted(bad), [[place for step, place in enumerate(places) if step not in bad]]
    if answer.error_code == ErrorCode.MESSAGE_TOO_LARGE and len(places) > 1:
        middle = len(places) // 2
        return (), [places[:middle], places[middle:]]
    return everything, []


def _chunks(records: Sequence[Record], places: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = [[]]
    size = 0
    for place in places:
        size += size_of(records[place]) + RECORD_BYTES
        if found[-1] and (size > BATCH_BYTES or len(found[-1]) == BATCH_RECORDS):
            found.append([])
            size = size_of(records[place])
        found[-1].append(place)
    return found


def _batch(records: Sequence[Record]) -> memoryview:
    numbered = [Record(i, each.timestamp, each.key, each.value, each.headers) for i, each in enumerate(records)]
    return memoryview(build_batch(numbered))


def _outcome(answer: Any, step: int, record: Record) -> Sent:
    if answer.error_code:
        reasons = {each.batch_index: each.batch_index_error_message for each in answer.record_errors or ()}
        reason = reasons.get(step) or answer.error_message or ""
        return Sent(answer.index, -1, record.timestamp, KafkaError(ErrorCode(answer.error_code), reason))
    stamped = answer.log_append_time_ms
    return Sent(answer.index, answer.base_offset + step, stamped if stamped >= 0 else record.timestamp)
