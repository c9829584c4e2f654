"""Produce: transactional producers, and batches that unpack to very much."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from kompat.handlers import BY_KEY
from kompat.handlers.support.services import Services
from kompat.log.partition import Isolation, Partition
from kompat.protocol import messages
from kompat.protocol.api_keys import ApiKey
from kompat.protocol.codec import encode_request
from kompat.protocol.records import Compression, Record, build_batch
from tests.handlers.conftest import Asker
from tests.handlers.transactions import a_producer
from tests.handlers.turns import LONGEST_TURN, TRIES, answer_to, create_topic, longest_turn, services

__all__ = ["services"]


def test_an_older_producer_has_to_add_a_partition_before_it_writes_there(prompt: Asker, topic: str) -> None:
    producer = a_producer(prompt)

    assert producer.produce(topic, version=10) is ErrorCode.INVALID_TXN_STATE
    assert producer.produce(topic, version=11) is ErrorCode.TRANSACTION_ABORTABLE
    producer.add(topic)
    assert producer.produce(topic, version=11) is ErrorCode.NONE


def test_a_newer_producer_just_writes(prompt: Asker, topic: str) -> None:
    producer = a_producer(prompt, version=5)

    assert producer.produce(topic, version=12) is ErrorCode.NONE
    assert producer.describe().topics[0].partitions == [0]
    producer.commit()
    assert producer.produce(topic, version=12) is ErrorCode.NONE


VERSION = 9
HUGE = 60_000_000
CODECS = [Compression.GZIP, Compression.ZSTD, Compression.LZ4]
Batches = list[tuple[int, bytes]]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
async def test_a_batch_that_unpacks_to_very_much_lets_others_have_their_turns(
    services: Services, codec: Compression
) -> None:
    partition = await _made(services)
    batch = bytes(build_batch([_record(0, HUGE)], compression=codec))

    assert await _shortest_of_longest(services, [(0, batch)]) < LONGEST_TURN
    assert partition.log_end_offset >= 1


async def test_many_batches_that_unpack_to_much_let_others_have_their_turns(services: Services) -> None:
    await _made(services, partitions=50)
    batch = bytes(build_batch([_record(0, 3_000_000)], compression=Compression.GZIP))

    assert await _shortest_of_longest(services, [(index, batch) for index in range(50)]) < LONGEST_TURN


async def test_records_that_are_refused_are_not_looked_at_one_by_one_on_the_event_loop(services: Services) -> None:
    await _made(services)
    wrong = [Record(n, 2**60, None, None) for n in range(200_000)]
    batch = bytes(build_batch(wrong, compression=Compression.ZSTD))

    assert await _shortest_of_longest(services, [(0, batch)]) < LONGEST_TURN
    assert (await _answer(services, [(0, batch)])) == [ErrorCode.INVALID_TIMESTAMP]


async def test_a_batch_that_is_packed_anew_lets_others_have_their_turns(services: Services) -> None:
    await _made(services, compression_type="gzip")
    value = b"".join(n.to_bytes(4, "big") for n in range(225_000))
    batch = bytes(build_batch([Record(0, 5, None, value)]))

    assert await _shortest_of_longest(services, [(0, batch)]) < LONGEST_TURN


async def test_what_is_behind_a_long_batch_in_its_request_comes_behind_it(services: Services) -> None:
    partition = await _made(services)
    long = bytes(build_batch([_record(0, HUGE)], compression=Compression.ZSTD))
    short = bytes(build_batch([_record(0, 1), _record(1, 1)]))

    assert await _answer(services, [(0, long), (0, short)]) == [ErrorCode.NONE] * 2
    found = await partition.read_stored(partition.log_start_offset, HUGE, Isolation.READ_UNCOMMITTED)
    assert [len(buffer) for buffer in found.buffers] == [len(long), len(short)]


async def test_a_long_batch_that_is_wrong_is_refused_as_a_short_one(services: Services) -> None:
    partition = await _made(services)
    long = bytearray(build_batch([_record(0, HUGE), _record(2, 1)], compression=Compression.ZSTD, last_offset_delta=1))

    assert await _answer(services, [(0, bytes(long))]) == [ErrorCode.INVALID_RECORD]
    assert partition.log_end_offset == 0


async def test_headers_of_a_long_batch_are_heeded(services: Services) -> None:
    partition = await _made(services)
    delayed = Record(0, 5, None, bytes(10_000_000), (("kompat-delay-ms", b"60000"),))
    long = bytes(build_batch([delayed], compression=Compression.ZSTD))

    assert await _answer(services, [(0, long)]) == [ErrorCode.NONE]
    found = await partition.read_stored(partition.log_start_offset, HUGE, Isolation.READ_UNCOMMITTED)
    assert sum(len(buffer) for buffer in found.buffers) < 100


def _record(number: int, size: int) -> Record:
    return Record(number, 5, None, bytes(size))


async def _made(services: Services, *, partitions: int = 1, **settings: str) -> Partition:
    await create_topic(services, "t", partitions, **settings)
    found = services.logs.find("t", 0)
    assert found is not None
    return found


def _request(batches: Batches) -> messages.ProduceRequest:
    made = messages.ProduceRequest
    data = [made.TopicProduceData.PartitionProduceData(index=index, records=batch) for index, batch in batches]
    topic = made.TopicProduceData(name="t", partition_data=data)
    return made(acks=-1, timeout_ms=30_000, topic_data=[topic])


async def _shortest_of_longest(services: Services, batches: Batches) -> float:
    turns: list[float] = []
    while len(turns) < TRIES and min(turns, default=LONGEST_TURN) >= LONGEST_TURN:
        frame = encode_request(messages.ProduceRequest, VERSION, _request(batches))
        turns.append(await longest_turn(services, BY_KEY[ApiKey.Produce], memoryview(frame)))
    return min(turns)


async def _answer(services: Services, batches: Batches) -> list[int]:
    answer = await answer_to(services, BY_KEY[ApiKey.Produce], VERSION, _request(batches))
    return [partition.error_code for partition in answer.responses[0].partition_responses]
