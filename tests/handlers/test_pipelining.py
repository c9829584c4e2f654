"""Requests that are sent back to back on one connection have the answers that they have one by one."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import kompat.testing
from kompat.protocol.records import Record, build_batch
from tests.handlers import wire
from tests.handlers.conftest import build

ROUND = count()
TOPICS = ("a", "b")
NO_ANSWER = "acks=0"
# What is different in every broker, or each time.
BY_CHANCE = ("topic_id", "log_append_time_ms", "timestamp", "cluster_id", "node_id", "host", "port", "session_id")
LATEST, EARLIEST = -1, -2

Step = tuple[Any, ...]


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[kompat.testing.RunningBroker, kompat.testing.RunningBroker]]:
    given = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}
    with kompat.testing.broker(given) as one, kompat.testing.broker(given) as other:
        yield one, other


topics = st.sampled_from(TOPICS)
steps = st.one_of(
    st.tuples(st.just("create"), topics),
    st.tuples(st.just("delete"), topics),
    st.tuples(st.just("metadata"), topics),
    st.tuples(st.just("grow"), topics, st.integers(2, 3)),
    st.tuples(st.just("produce"), topics, st.sampled_from((0, 1, -1)), st.integers(1, 3)),
    st.tuples(st.just("produce"), topics, st.sampled_from((0, 1, -1)), st.integers(1, 3)),
    st.tuples(st.just("park"), topics, st.sampled_from((0, 1, -1)), st.integers(1, 3)),
    st.tuples(st.just("offsets"), topics, st.sampled_from((LATEST, EARLIEST))),
    st.tuples(st.just("offsets"), topics, st.sampled_from((LATEST, EARLIEST))),
    st.tuples(st.just("truncate"), topics, st.integers(-1, 2)),
    st.tuples(st.just("fetch"), topics, st.integers(0, 3), st.sampled_from((0, 20))),
    st.tuples(st.just("commit"), topics, st.integers(0, 9)),
    st.tuples(st.just("committed"), topics),
    st.tuples(st.just("configure"), topics, st.sampled_from(("1000", "2000"))),
    st.tuples(st.just("described"), topics),
)


Asked = tuple[str, int, dict[str, Any]]


def asked(step: Step, prefix: str) -> Asked:
    """API, version and fields."""
    kind, topic, *rest = step
    return globals()[f"_{kind}"](prefix + topic, *rest)  # type: ignore[no-any-return]


def _create(name: str) -> Asked:
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": []}
    return "CreateTopics", 5, {"topics": [wanted], "timeout_ms": 9000}


def _delete(name: str) -> Asked:
    return "DeleteTopics", 5, {"topic_names": [name], "timeout_ms": 9000}


def _metadata(name: str) -> Asked:
    return "Metadata", 9, {"topics": [{"name": name}]}


def _grow(name: str, partitions: int) -> Asked:
    return "CreatePartitions", 3, {"topics": [{"name": name, "count": partitions}], "timeout_ms": 9000}


def _produce(name: str, acks: int, records: int) -> Asked:
    batch = build_batch([Record(n, 1_700_000_000_000, None, b"value", ()) for n in range(records)])
    data = [{"name": name, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    return "Produce", 9, {"acks": acks, "timeout_ms": 9000, "topic_data": data}


def _park(name: str, acks: int, records: int) -> Asked:
    """Records that wait; very many take several turns of the broker."""
    headers = (("kompat-delay-ms", b"3600000"),)
    batch = build_batch([Record(n, 1_700_000_000_000, None, b"value", headers) for n in range(records)])
    data = [{"name": name, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    return "Produce", 9, {"acks": acks, "timeout_ms": 9000, "topic_data": data}


def _offsets(name: str, which: int) -> Asked:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": which}
    return "ListOffsets", 7, {"replica_id": -1, "topics": [{"name": name, "partitions": [partition]}]}


def _truncate(name: str, offset: int) -> Asked:
    partition = {"partition_index": 0, "offset": offset}
    return "DeleteRecords", 2, {"topics": [{"name": name, "partitions": [partition]}], "timeout_ms": 9000}


def _fetch(name: str, offset: int, wait_ms: int) -> Asked:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    how = {"max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    return "Fetch", 12, {"topics": [{"topic": name, "partitions": [partition]}], **how}


def _commit(name: str, offset: int) -> Asked:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [partition]}]
    return "OffsetCommit", 7, {"group_id": name, "generation_id_or_member_epoch": -1, "topics": topics}


def _committed(name: str) -> Asked:
    return "OffsetFetch", 7, {"group_id": name, "topics": [{"name": name, "partition_indexes": [0]}]}


def _configure(name: str, value: str) -> Asked:
    change = {"name": "segment.ms", "config_operation": 0, "value": value}
    changed = {"resource_type": 2, "resource_name": name, "configs": [change]}
    return "IncrementalAlterConfigs", 1, {"resources": [changed]}


def _described(name: str) -> Asked:
    described = {"resource_type": 2, "resource_name": name, "configuration_keys": ["segment.ms"]}
    return "DescribeConfigs", 4, {"resources": [described]}


class Pipe:
    """One connection to a broker; answers are told as plain values, without what chance has a hand in."""

    def __init__(self, broker: kompat.testing.RunningBroker, prefix: str) -> None:
        self._prefix = prefix
        self._socket = socket.create_connection((broker.host, broker.port), timeout=20)

    def send(self, sequence: Sequence[Step]) -> None:
        requests = [asked(step, self._prefix) for step in sequence]
        self._socket.sendall(
            b"".join(wire.request_frame(build(f"{api}Request", fields), version) for api, version, fields in requests)
        )

    def receive(self, step: Step) -> Any:
        api, version, fields = asked(step, self._prefix)
        if fields.get("acks") == 0:
            return NO_ANSWER
        return told(wire.decode_response(api, version, wire.read_frame(self._socket)))

    def close(self) -> None:
        self._socket.close()


def told(answer: Any) -> Any:
    if isinstance(answer, list):
        return [told(each) for each in answer]
    if not hasattr(answer, "_struct"):
        return bytes(answer) if isinstance(answer, memoryview) else answer
    fields = [field.name for field in answer._struct._fields if field.for_version_q(answer.version)]
    return {name: told(getattr(answer, name)) for name in fields if name not in BY_CHANCE}


def answers(broker: kompat.testing.RunningBroker, prefix: str, sequence: Sequence[Step], at_a_time: int) -> list[Any]:
    """Up to the end of the connection: a Produce with acks=0 that fails closes it."""
    pipe, found = Pipe(broker, prefix), []
    try:
        for position in range(0, len(sequence), at_a_time):
            some = sequence[position : position + at_a_time]
            pipe.send(some)
            found.extend(pipe.receive(step) for step in some)
    except ConnectionError:
        pass
    finally:
        pipe.close()
    while found and found[-1] == NO_ANSWER:
        found.pop()
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=st.lists(steps, min_size=2, max_size=16))
@example([("metadata", "a"), ("delete", "a"), ("offsets", "a", LATEST), ("create", "a"), ("metadata", "a")])
@example([*[("produce", "a", 1, 2), ("offsets", "a", LATEST)] * 3, ("truncate", "a", 3), ("offsets", "a", EARLIEST)])
@example([("produce", "a", 0, 2), ("offsets", "a", LATEST), ("fetch", "a", 0, 20), ("delete", "a"), ("metadata", "a")])
@example([("commit", "a", 5), ("committed", "a"), ("grow", "a", 2), ("metadata", "a"), ("configure", "a", "1000")])
@example([("configure", "a", "1000"), ("described", "a"), ("fetch", "a", 0, 20), ("produce", "a", -1, 1)])
@example([("park", "a", 1, 5000), ("produce", "a", 1, 2), ("park", "a", 0, 5000), ("offsets", "a", LATEST)])
def test_a_pipelined_sequence_is_answered_as_one_by_one(
    brokers: tuple[kompat.testing.RunningBroker, kompat.testing.RunningBroker], sequence: list[Step]
) -> None:
    prefix = f"pipe-{next(ROUND)}-"
    sequence = [("create", "a"), *sequence]

    pipelined = answers(brokers[0], prefix, sequence, at_a_time=len(sequence))

    assert pipelined == answers(brokers[1], prefix, sequence, at_a_time=1)
