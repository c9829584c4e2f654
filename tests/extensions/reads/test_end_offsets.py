"""Where partitions of other brokers end: their leaders are asked together, not too often, and what they told is kept."""

from __future__ import annotations

from uuid import UUID

from kompat.clock import ManualClock
from kompat.errors import ErrorCode, KafkaError
from kompat.extensions.reads import end_offsets
from kompat.extensions.reads.end_offsets import EndOffsets, ListEndOffsets
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

    def leader(self, log_id: LogId) -> NodeId | None:
        return None if log_id.partition == 3 else NodeId(2 + log_id.partition % 2)

    async def call(self, node: NodeId, request: ListEndOffsets) -> list[int | None]:
        self.asked.append((node, len(request.log_ids)))
        if node in self.down:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        return [None if each.partition == 2 else self.end + each.partition for each in request.log_ids]


async def test_each_leader_is_asked_once_and_not_again_for_some_seconds() -> None:
    cluster, clock = Cluster(), ManualClock()
    ends = EndOffsets(cluster, None, clock)  # type: ignore[arg-type]

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
    ends = EndOffsets(cluster, None, clock)  # type: ignore[arg-type]
    await ends.look_up(PLACES)

    cluster.down, cluster.end = {2}, 30
    clock.advance(60_000)
    await ends.look_up(PLACES)

    assert [ends.of(place) for place in PLACES] == [10, 31, None, None]
    clock.advance(60_000)
    await ends.look_up(PLACES[1:2])
    assert ends.of(PLACES[0]) is None  # nobody asks about it any more
