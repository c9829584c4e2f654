"""CPU time of one Produce, one Fetch and one ListOffsets inside the broker, without sockets: what a change to the hot path costs.

    python -m benchmarks.requests [ROUNDS]

The least of all rounds counts: whatever else runs on the machine only adds to it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from kompat.broker import Broker, new_event_loop
from kompat.config.load import load
from kompat.handlers import APIS
from kompat.protocol.records import Record, build_batch
from kompat.server.dispatch import Client, Dispatcher, Exchange
from tests.handlers import wire

AT_A_TIME = 50
TURNS = 60
TOPIC = "bench"


def _produce() -> bytes:
    batch = build_batch([Record(index, 1_700_000_000_000, None, bytes(100), ()) for index in range(10)])
    message = wire.message("ProduceRequest")
    topic = message.TopicProduceData(
        name=TOPIC, partition_data=[message.TopicProduceData.PartitionProduceData(index=0, records=bytes(batch))]
    )
    request = message(transactional_id=None, acks=1, timeout_ms=1000, topic_data=[topic])
    return wire.request_frame(request, 9)[4:]


def _fetch() -> bytes:
    message = wire.message("FetchRequest")
    partition = message.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=4096,
    )
    topic = message.FetchTopic(topic=TOPIC, partitions=[partition])
    request = message(
        replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=0, session_id=0, session_epoch=-1,
        topics=[topic], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return wire.request_frame(request, 12)[4:]


def _list_offsets() -> bytes:
    """As Spark asks, twice for every 500 records that it reads."""
    message = wire.message("ListOffsetsRequest")
    partition = message.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    topic = message.ListOffsetsTopic(name=TOPIC, partitions=[partition])
    return wire.request_frame(message(replica_id=-1, isolation_level=0, topics=[topic]), 8)[4:]


class _Bench:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._client = Client("127.0.0.1", "bench", ("127.0.0.1", 9092))

    async def run(self, frame: bytes) -> float:
        """Microseconds of CPU a request."""
        begun = time.process_time()
        for _ in range(TURNS):
            under_way = [
                self._dispatcher.dispatch(self._client, memoryview(bytearray(frame))) for _ in range(AT_A_TIME)
            ]
            # A future to wait for would be measured too.
            while any(isinstance(each, Exchange) and not each.is_settled for each in under_way):  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert all(_answer(each) for each in under_way)
        return (time.process_time() - begun) / TURNS / AT_A_TIME * 1e6


def _answer(given: Any) -> Any:
    return given.answer if isinstance(given, Exchange) else given


async def main(rounds: int) -> None:
    broker = Broker(load({"port": "0", "data": ":memory:"}, environ={}))
    services = await broker._build_services()
    try:
        await services.cluster.auto_create([TOPIC])
        bench = _Bench(Dispatcher(APIS, services))
        frames = {"Produce": _produce(), "Fetch": _fetch(), "ListOffsets": _list_offsets()}
        best = dict.fromkeys(frames, float("inf"))
        for _ in range(rounds):
            for name, frame in frames.items():
                best[name] = min(best[name], await bench.run(frame))
        print(", ".join(f"{name} {figure:.2f} µs" for name, figure in best.items()))
    finally:
        await broker.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
