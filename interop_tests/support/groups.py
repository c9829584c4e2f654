"""What a broker says of its groups, and the settings under which tests need not wait long for it."""

import itertools
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConsumerGroupListing
from kafka.protocol.consumer import OffsetFetchRequest

from interop_tests.support.broker import AnyBroker
from interop_tests.support.codes import Code
from interop_tests.support.members.host import Member, Place
from interop_tests.support.members.kinds import Pace
from interop_tests.support.wait import until
from interop_tests.support.wire import Wire

# What a broker of the tests' own is started with: dead members are missed after two seconds, not after 45.
FAST_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
}
FAST = Pace(session_ms=2_000, heartbeat_ms=200)
STOCK = Pace(session_ms=6_000, heartbeat_ms=500)

_numbers = itertools.count()
_run = uuid.uuid4().hex[:8]


def fresh_group() -> str:
    return f"g-{_run}-{next(_numbers)}"


def pace_of(broker: AnyBroker) -> Pace:
    return FAST if broker.is_ours else STOCK


class Groups:
    """Asks one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def committed(self, group: str) -> dict[Place, int]:
        """All of a group's offsets. librdkafka's admin client dies of a coordinator that is not ready yet."""
        with Wire(self._bootstrap) as wire:
            request = OffsetFetchRequest(group_id=group, topics=None, require_stable=False)
            answer = until(lambda: _ready(wire.ask(request, 7)), "the coordinator is ready", seconds=30)
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.topics
            for partition in topic.partitions
        }

    def listing(self, group: str) -> ConsumerGroupListing | None:
        found = self._admin.list_consumer_groups().result(20)
        if found.errors:
            raise KafkaException(found.errors[0])
        return next((listed for listed in found.valid if listed.group_id == group), None)

    def kind(self, group: str) -> str:
        """`CLASSIC` or `CONSUMER`."""
        listed = self.listing(group)
        assert listed is not None, f"{group} is not listed"
        return str(listed.type.name)


def _ready(answer: Any) -> Any:
    if answer.error_code in (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR):
        return None
    assert answer.error_code == 0
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How often each record was seen by the members of a group."""

    lost: list[tuple[str, int, int]]
    repeated: list[tuple[str, int, int]]


def coverage(sent: Iterable[tuple[str, int, int]], members: Iterable[Member]) -> Coverage:
    seen: dict[tuple[str, int, int], int] = {}
    for member in members:
        for record in member.records:
            key = (record.topic, record.partition, record.offset)
            seen[key] = seen.get(key, 0) + 1
    return Coverage(
        lost=sorted(key for key in sent if key not in seen), repeated=sorted(key for key in seen if seen[key] > 1)
    )
