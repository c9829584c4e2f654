"""ShareFetch and ShareAcknowledge as a client sees them; the rules themselves are tested with the machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from threading import Timer
from time import monotonic
from typing import Any
from uuid import UUID

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from kompat.protocol.records import Record, build_batch

from .conftest import Asker
from .share import Member, ack_errors, acquired, values

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
NUMBERS = count()


@pytest.fixture(scope="module")
def ask() -> Iterator[Asker]:
    with kompat.testing.broker({"group.share.min.record.lock.duration.ms": 1000}) as running:
        yield Asker(running)


class Queue:
    """A topic and a share group of its own."""

    def __init__(self, ask: Asker, stack: ExitStack, partitions: int = 1, **settings: str) -> None:
        self.ask = ask
        self.stack = stack
        self.topic = ask.new_topic(partitions)
        described = ask("Metadata", 12, topics=[{"name": self.topic, "topic_id": None}])
        self.id: UUID = described.topics[0].topic_id
        self.group = f"group-{next(NUMBERS)}"
        self.set(share_auto_offset_reset="earliest", **settings)

    def set(self, **settings: str) -> None:
        configs = [
            {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in settings.items()
        ]
        resources = [{"resource_type": 32, "resource_name": self.group, "configs": configs}]
        answer = self.ask("IncrementalAlterConfigs", 1, resources=resources, validate_only=False)
        assert answer.responses[0].error_code == 0, answer

    def member(self, name: str, version: int = 2) -> Member:
        broker = self.ask.broker
        member = Member((broker.host, broker.port), self.group, name, version)
        self.stack.callback(member.close)
        return member

    def produce(self, *payloads: bytes, partition: int = 0, **batch: Any) -> int:
        records = [Record(i, 1_700_000_000_000, None, payload, []) for i, payload in enumerate(payloads)]
        data = [{"index": partition, "records": bytes(build_batch(records, **batch))}]
        answer = self.ask(
            "Produce", 9, acks=-1, timeout_ms=1000, topic_data=[{"name": self.topic, "partition_data": data}]
        )
        [response] = answer.responses[0].partition_responses
        assert response.error_code == 0, response
        return int(response.base_offset)

    def numbers(self, size: int, **batch: Any) -> int:
        return self.produce(*(b"%d" % i for i in range(size)), **batch)

    def said(self, *batches: tuple[int, int, list[int]], partition: int = 0) -> Any:
        return {(self.id, partition): batches}


@pytest.fixture
def queue(ask: Asker) -> Iterator[Callable[..., Queue]]:
    with ExitStack() as stack:
        yield lambda *args, **kwargs: Queue(ask, stack, *args, **kwargs)


def test_a_member_gets_records_and_another_does_not_get_them_too(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(10)
    alice, bob = orders.member("alice"), orders.member("bob")

    answer = alice.fetch({orders.id: [0]})
    assert acquired(answer) == [(0, 9, 1)]
    assert values(answer) == [b"%d" % i for i in range(10)]
    assert answer.acquisition_lock_timeout_ms == 30_000
    assert acquired(bob.fetch({orders.id: [0]}, max_wait_ms=100)) == []


def test_what_is_acknowledged_with_the_next_fetch_does_not_come_again(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(4)
    alice = orders.member("alice")
    alice.fetch({orders.id: [0]})
    orders.numbers(2)

    answer = alice.fetch(acks=orders.said((0, 3, ACCEPT)))
    assert ack_errors(answer) == [0]
    assert acquired(answer) == [(4, 5, 1)]


def test_a_fetch_waits_for_records(queue: Callable[..., Queue]) -> None:
    orders = queue()
    alice = orders.member("alice")
    alice.fetch({orders.id: [0]}, max_wait_ms=0)
    first = alice.fetch(max_wait_ms=1)
    assert first.responses == []
    timer = Timer(0.2, orders.numbers, (3,))
    timer.start()
    assert acquired(alice.fetch(max_wait_ms=10_000)) == [(0, 2, 1)]
    timer.join()


@pytest.mark.parametrize("version", [1, 2])
def test_released_records_come_again_and_rejected_ones_do_not(queue: Callable[..., Queue], version: int) -> None:
    orders = queue()
    orders.numbers(6)
    alice = orders.member("alice", version)
    alice.fetch({orders.id: [0]})

    answer = alice.acknowledge(orders.said((0, 1, ACCEPT), (2, 3, RELEASE), (4, 5, [3, 2])))
    assert ack_errors(answer) == [0]
    assert acquired(alice.fetch()) == [(2, 3, 2), (5, 5, 2)]


def test_an_acknowledgement_of_what_is_not_held_is_refused(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(6)
    alice, bob = orders.member("alice"), orders.member("bob")
    alice.fetch({orders.id: [0]}, max_records=6)
    bob.fetch({orders.id: [0]}, max_wait_ms=0)

    assert ack_errors(bob.acknowledge(orders.said((0, 1, ACCEPT)))) == [ErrorCode.INVALID_RECORD_STATE]
    assert ack_errors(alice.acknowledge(orders.said((0, 5, ACCEPT)))) == [0]
    assert ack_errors(alice.acknowledge(orders.said((0, 5, ACCEPT)))) == [0]  # before the start: long done with


def test_record_limit_gives_no_more_than_asked(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(10)
    alice, bob = orders.member("alice"), orders.member("bob")

    answer = alice.fetch({orders.id: [0]}, max_records=3, share_acquire_mode=1)
    assert acquired(answer) == [(0, 2, 1)]
    assert values(answer) == [b"0", b"1", b"2"]
    assert acquired(bob.fetch({orders.id: [0]}, max_records=3)) == [(3, 9, 1)]


def test_the_end_of_a_session_lets_go(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(5)
    alice, bob = orders.member("alice"), orders.member("bob")
    alice.fetch({orders.id: [0]})

    answer = alice.acknowledge(orders.said((0, 1, ACCEPT)), share_session_epoch=-1)
    assert ack_errors(answer) == [0]
    assert acquired(bob.fetch({orders.id: [0]})) == [(2, 4, 2)]
    assert alice.fetch(share_session_epoch=7).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_connection_that_breaks_lets_go(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(5)
    alice, bob = orders.member("alice"), orders.member("bob")
    alice.fetch({orders.id: [0]})
    alice.close()

    assert acquired(bob.fetch({orders.id: [0]})) == [(0, 4, 2)]


def test_session_epochs_are_checked(queue: Callable[..., Queue]) -> None:
    orders = queue()
    orders.numbers(5)
    alice = orders.member("alice")

    assert alice.fetch(share_session_epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert alice.fetch({orders.id: [0]}).error_code == 0
    assert alice.fetch(share_session_epoch=5).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert alice.acknowledge({}, share_session_epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    opening = alice.fetch({orders.id: [0]}, orders.said((0, 1, ACCEPT)), share_session_epoch=0)
    assert opening.error_code == ErrorCode.INVALID_REQUEST


def test_unknown_topics_and_partitions_are_told(queue: Callable[..., Queue]) -> None:
    orders = queue()
    answer = orders.member("alice").fetch({UUID(int=99): [0], orders.id: [7]})
    errors = {topic.topic_id: [p.error_code for p in topic.partitions] for topic in answer.responses}
    assert errors == {
        UUID(int=99): [ErrorCode.UNKNOWN_TOPIC_ID],
        orders.id: [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    }


def test_renewing_keeps_records(queue: Callable[..., Queue]) -> None:
    orders = queue(share_record_lock_duration_ms="2000")
    orders.numbers(2)
    alice, bob = orders.member("alice"), orders.member("bob")
    alice.fetch({orders.id: [0]})
    assert acquired(bob.fetch({orders.id: [0]}, max_wait_ms=500)) == []
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "is_renew_ack": True}

    assert ack_errors(alice.fetch(acks=orders.said((0, 0, RENEW)), **nothing)) == [0]
    assert acquired(bob.fetch(max_wait_ms=10_000)) == [(1, 1, 2)]
    assert acquired(bob.fetch(max_wait_ms=10_000)) == [(0, 0, 2)]


def test_offsets_of_groups_are_told_and_set(queue: Callable[..., Queue], ask: Asker) -> None:
    orders = queue()
    orders.numbers(10)
    alice = orders.member("alice")
    alice.fetch({orders.id: [0]})
    alice.acknowledge(orders.said((0, 3, ACCEPT), (6, 6, ACCEPT)))
    asked = [{"group_id": orders.group, "topics": [{"topic_name": orders.topic, "partitions": [0]}]}]
    altered = [{"topic_name": orders.topic, "partitions": [{"partition_index": 0, "start_offset": 2}]}]

    def described(topics: Any = asked) -> Any:
        [group] = ask("DescribeShareGroupOffsets", 1, groups=topics).groups
        assert group.error_code == 0
        return [(p.start_offset, p.lag) for topic in group.topics for p in topic.partitions]

    assert described() == [(4, 5)]
    assert described([{"group_id": orders.group, "topics": None}]) == [(4, 5)]
    alice.fetch(share_session_epoch=-1)
    assert ask("AlterShareGroupOffsets", 0, group_id=orders.group, topics=altered).error_code == 0
    assert described() == [(2, 8)]
    assert acquired(orders.member("bob").fetch({orders.id: [0]})) == [(2, 9, 1)]


def test_a_session_too_many_is_refused_when_its_time_is_up() -> None:
    with ExitStack() as stack:
        running = stack.enter_context(kompat.testing.broker({"group.share.max.share.sessions": 1}))
        orders = Queue(Asker(running), stack)
        orders.member("alice").fetch({orders.id: [0]}, max_wait_ms=0)
        begun = monotonic()
        answer = orders.member("bob").fetch({orders.id: [0]}, max_wait_ms=300)
        assert answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert monotonic() - begun >= 0.3
