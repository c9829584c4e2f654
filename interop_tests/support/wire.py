"""Raw requests, for what no client lets a test say: exact versions, timings, pipelining, repeated batches."""

import socket
import struct
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from interop_tests.support.clients.base import CALL_SECONDS
from interop_tests.support.codes import Code
from interop_tests.support.wait import until

API_VERSIONS_KEY = 18


class Wire:
    """One connection. Requests may be sent ahead of their answers."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), CALL_SECONDS)
        self._correlation = 0
        self._waiting: list[tuple[int, Any]] = []

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, request: Any, version: int) -> int:
        """Send without waiting; the answers are read in the order of their requests."""
        self._correlation += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation, client_id="wire")
        self.socket.sendall(request.encode(header=True, framed=True))
        if request.expect_response():
            self._waiting.append((self._correlation, request))
        return self._correlation

    def receive(self) -> Any:
        correlation, request = self._waiting.pop(0)
        frame = self.receive_frame()
        response_class = request.header.get_response_class()
        # An ApiVersions answer never has the flexible header: its reader does not know yet what the broker speaks.
        is_flexible = response_class.API_KEY != API_VERSIONS_KEY and response_class.flexible_version_q(
            request.API_VERSION
        )
        assert struct.unpack_from(">i", frame)[0] == correlation, "answers left out of order"
        return response_class.decode(frame[5 if is_flexible else 4 :])

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            parts += part
        return bytes(parts)

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def producer_id(self) -> tuple[int, int]:
        """A new producer's id and epoch."""
        request = {"transactional_id": None, "transaction_timeout_ms": 0, "producer_id": -1, "producer_epoch": -1}
        # A broker that has just started may first have to fetch a block of ids.
        answer = until(lambda: self._given(self.ask(InitProducerIdRequest(**request), 4)), "a producer id is given")
        return answer.producer_id, answer.producer_epoch

    @staticmethod
    def _given(answer: Any) -> Any:
        assert answer.error_code in (0, Code.COORDINATOR_LOAD_IN_PROGRESS)
        return answer if answer.error_code == 0 else None

    def produce(self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1, version: int = 12) -> Any:
        """The answer for the one partition."""
        answer = self.ask(produce_request(topic, records, partition=partition, acks=acks), version)
        return answer.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, *, partition: int = 0, version: int = 12, **limits: Any) -> Any:
        """The answer for the one partition, outside of any fetch session."""
        answer = self.ask(fetch_request(topic, offset, partition=partition, **limits), version)
        return answer.responses[0].partitions[0]

    def list_offset(self, topic: str, timestamp: int, *, partition: int = 0, version: int = 10) -> Any:
        wanted = ListOffsetsRequest.ListOffsetsTopic
        asked = wanted(
            name=topic,
            partitions=[
                wanted.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=timestamp)
            ],
        )
        answer = self.ask(
            ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked], timeout_ms=10_000), version
        )
        return answer.topics[0].partitions[0]

    def topic_id(self, topic: str) -> Any:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        return self.ask(request, 12).topics[0].topic_id


def produce_request(
    topic: str,
    records: bytes,
    *,
    partition: int = 0,
    acks: int = -1,
    topic_id: Any = None,
    transactional_id: str | None = None,
) -> Any:
    topic_data = ProduceRequest.TopicProduceData
    data = topic_data(name=topic, partition_data=[topic_data.PartitionProduceData(index=partition, records=records)])
    if topic_id is not None:
        data.topic_id = topic_id
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=[data])


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    topic_id: Any = None,
) -> Any:
    fetch_topic = FetchRequest.FetchTopic
    wanted = fetch_topic.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=partition_max_bytes,
    )
    asked = fetch_topic(topic=topic, partitions=[wanted])
    if topic_id is not None:
        asked.topic_id = topic_id
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[asked] if topic else [],
        forgotten_topics_data=[],
        rack_id="",
    )


def batch(
    values: Sequence[bytes | None],
    *,
    key: bytes | None = None,
    timestamp: int | None = None,
    codec: int = 0,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """One record batch as a producer would send it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=int(transactional),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        batch_size=1 << 30,
    )
    stamp = int(time.time() * 1000) if timestamp is None else timestamp
    for offset, value in enumerate(values):
        assert builder.append(offset, stamp, key, value, []) is not None
    return bytes(builder.build())


def batches(records: bytes | None) -> list[DefaultRecordBatch]:
    """The complete batches of a fetched record set."""
    found = []
    view = MemoryRecords(bytes(records or b""))
    while view.has_next():
        found.append(view.next_batch())
    return found
