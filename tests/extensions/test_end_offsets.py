"""Where partitions of other brokers end: their leaders are asked together, not too often, and what they told is kept."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kompat.clock import ManualClock
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions import end_offsets
from kompat.extensions.end_offsets import EndOffsets
from kompat.types import LogId, NodeId

TOPIC = UUID(int=7)
PLACES = [LogId(TOPIC, partition) for partition in range(4)]


class Cluster:
    """Brokers 2 and 3 lead a partition in turn; nobody leads the last."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []  # broker, and about how many
        self.down: set[int] = set()
        self.end = 10

    def serve(self, *_: object) -> None: ...

    def leader_of(self, place: LogId) -> NodeId:
        if place.partition == 3:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return NodeId(2 + place.partition % 2)

    async def ask_node(self, node: NodeId, _: str, told: Any) -> list[int | None]:
        self.asked.append((node, len(told)))
        if node in self.down:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return [None if partition == 2 else self.end + partition for _, partition in told]


async def test_each_leader_is_asked_once_and_not_again_for_some_seconds() -> None:
    cluster, clock = Cluster(), ManualClock()
    ends = EndOffsets(None, clock, cluster)  # type: ignore[arg-type]

    await ends.look_up(PLACES)
    await ends.look_up(PLACES[:2])

    assert sorted(cluster.asked) == [(2, 2), (3, 1)]
    assert [ends.of(place) for place in PLACES] == [10, 11, None, None]
    clock.advance(int(end_offsets.GOOD_SECONDS * 1000))
    cluster.end = 20
    await ends.look_up(PLACES)
    assert [ends.of(place) for place in PLACES] == [20, 21, None, None]


async def test_of_a_broker_that_does_not_answer_the_last_word_counts() -> None:
    cluster, clock = Cluster(), ManualClock()
    ends = EndOffsets(None, clock, cluster)  # type: ignore[arg-type]
    await ends.look_up(PLACES)

    cluster.down, cluster.end = {2}, 30
    clock.advance(60_000)
    await ends.look_up(PLACES)

    assert [ends.of(place) for place in PLACES] == [10, 31, None, None]
    clock.advance(60_000)
    await ends.look_up(PLACES[1:2])
    assert ends.of(PLACES[0]) is None  # nobody asks about it any more


async def test_who_is_alone_asks_nobody() -> None:
    ends = EndOffsets(None, ManualClock(), None)  # type: ignore[arg-type]

    await ends.look_up(PLACES)

    assert ends.is_alone
    assert ends.of(PLACES[0]) is None
