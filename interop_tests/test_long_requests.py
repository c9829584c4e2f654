"""One long request beside an innocent client: how long that has to wait, on a real broker over real sockets.

The bound is loose, for machines are busy; the figures are logged (`pytest --log-cli-level=INFO`), and docs/security.md has them.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from interop_tests.conftest import StartBroker
from kompat.protocol.codec import encode_request
from kompat.protocol.messages import (
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetFetchRequest,
)

log = logging.getLogger(__name__)

LONGEST_WAIT = 1.0  # seconds; these requests held everybody up for 2 to 15
NOBODY_MAY = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def offset_fetch() -> Any:
    made = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(groups=[made(group_id=f"g{number}", topics=None) for number in range(100_000)])


def list_offsets() -> Any:
    made = ListOffsetsRequest.ListOffsetsTopic
    names = [made(name=f"topic-{n}", partitions=[made.ListOffsetsPartition(timestamp=-1)]) for n in range(20_000)]
    return ListOffsetsRequest(replica_id=-1, topics=names)


def metadata() -> Any:
    names = [MetadataRequest.MetadataRequestTopic(name=f"topic-{number}") for number in range(50_000)]
    return MetadataRequest(topics=names, allow_auto_topic_creation=False)


def find_coordinator() -> Any:
    return FindCoordinatorRequest(key_type=0, coordinator_keys=[f"group-{number}" for number in range(50_000)])


def describe_groups() -> Any:
    return DescribeGroupsRequest(groups=[f"group-{number}" for number in range(50_000)])


ALLOWED = [(OffsetFetchRequest, 9, offset_fetch), (DescribeGroupsRequest, 5, describe_groups)]
DENIED = [
    (ListOffsetsRequest, 9, list_offsets),
    (MetadataRequest, 11, metadata),
    (FindCoordinatorRequest, 5, find_coordinator),
]


@pytest.mark.parametrize(
    ("settings", "requests"), [({}, ALLOWED), (NOBODY_MAY, DENIED)], ids=["with rights", "without rights"]
)
def test_a_long_request_does_not_keep_others_waiting(
    start_broker: StartBroker, settings: dict[str, str], requests: list[tuple[Any, int, Callable[[], Any]]]
) -> None:
    broker = start_broker(settings)
    for kind, version, made in requests:
        waited, took = beside(broker.port, kind, version, made())
        log.info("%s: others waited for %.0f ms, it took %.1f s", kind.__name__, waited * 1000, took)
        assert waited < LONGEST_WAIT, kind.__name__


def test_a_costly_subscription_does_not_keep_others_waiting(start_broker: StartBroker) -> None:
    broker = start_broker()
    made = CreateTopicsRequest.CreatableTopic
    names = [made(name=f"{n:03}" + "ab" * 120, num_partitions=1, replication_factor=1) for n in range(200)]
    ask(broker.port, CreateTopicsRequest, 7, CreateTopicsRequest(topics=names, timeout_ms=30_000))
    for number, pattern in enumerate(("(.?){999}(.?){999}", "(.{0,100}a){8}")):
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=f"g{number}",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[],
            subscribed_topic_regex=pattern,
            topic_partitions=[],
        )
        waited, took = beside(broker.port, ConsumerGroupHeartbeatRequest, 1, heartbeat)
        log.info("%s: others waited for %.0f ms, it took %.1f s", pattern, waited * 1000, took)
        assert waited < LONGEST_WAIT, pattern


def beside(port: int, kind: Any, version: int, request: Any) -> tuple[float, float]:
    """The longest that another client waits for an answer meanwhile, and how long the request takes."""
    done = threading.Event()
    waits: list[float] = []
    innocent = threading.Thread(target=ping, args=(port, done.is_set, waits))
    body = framed(kind, version, request)
    innocent.start()
    try:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(body)
            read(client)
        took = time.monotonic() - began
    finally:
        done.set()
        innocent.join()
    return max(waits), took


def ping(port: int, is_done: Callable[[], bool], waits: list[float]) -> None:
    question = framed(ApiVersionsRequest, 0, ApiVersionsRequest())
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        while not is_done():
            began = time.monotonic()
            client.sendall(question)
            read(client)
            waits.append(time.monotonic() - began)
            time.sleep(0.002)  # a client that has something else to do, too


def ask(port: int, kind: Any, version: int, request: Any) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(framed(kind, version, request))
        return read(client)


def framed(kind: Any, version: int, request: Any) -> bytes:
    body = bytes(encode_request(kind, version, request))
    return struct.pack(">i", len(body)) + body


def read(client: socket.socket) -> bytes:
    head = client.recv(4, socket.MSG_WAITALL)
    assert len(head) == 4, "the broker has closed the connection"
    (size,) = struct.unpack(">i", head)
    return client.recv(size, socket.MSG_WAITALL)
