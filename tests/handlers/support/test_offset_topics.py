"""Which partitions of a request about offsets reach the coordinator, and which error each of them gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kompat.errors import ErrorCode, KafkaError
from kompat.groups.machine.messages import CommittedTopic, TopicErrors
from kompat.handlers.support.base import Context
from kompat.handlers.support.offset_topics import RequestedTopic, commit_existing

KNOWN = SimpleNamespace(name="known", id=UUID(int=7), partitions=(0, 1, 2))
HIDDEN = SimpleNamespace(name="hidden", id=UUID(int=8), partitions=(0,))


@dataclass
class Offset:
    partition_index: int
    committed_offset: int = 5
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


def context() -> Context:
    topics = (KNOWN, HIDDEN)
    cluster = SimpleNamespace(
        topic={topic.name: topic for topic in topics}.get, topic_by_id={topic.id: topic for topic in topics}.get
    )
    authorizer = SimpleNamespace(allows=lambda _, __, ___, name: name != "hidden")
    return cast("Context", SimpleNamespace(services=SimpleNamespace(cluster=cluster, authorizer=authorizer)))


def requested(name: str, *indexes: int, topic_id: UUID | None = None) -> RequestedTopic[Offset]:
    return RequestedTopic(context(), name, [Offset(index) for index in indexes], topic_id)


class Coordinator:
    """Refuses partition 1, or everything."""

    def __init__(self, refusal: ErrorCode | None = None) -> None:
        self.committed: list[tuple[str, list[int]]] = []
        self._refusal = refusal

    async def commit(self, topics: tuple[CommittedTopic, ...]) -> Sequence[TopicErrors]:
        if self._refusal is not None:
            raise KafkaError(self._refusal)
        self.committed += [(topic.name, [each.partition for each in topic.partitions]) for topic in topics]
        return [TopicErrors(name=topic.name, partitions=_outcome(topic)) for topic in topics]


def _outcome(topic: CommittedTopic) -> tuple[tuple[int, ErrorCode], ...]:
    return tuple((each.partition, _error_of(each.partition)) for each in topic.partitions)


def _error_of(partition: int) -> ErrorCode:
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if partition == 1 else ErrorCode.NONE


async def test_partitions_that_exist_are_committed_and_the_others_have_an_error_of_their_own() -> None:
    coordinator = Coordinator()
    topics = [requested("unknown", 0), requested("known", 9, 1, -1, 2), requested("hidden", 0, 4)]

    errors = await commit_existing(topics, coordinator.commit)

    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert coordinator.committed == [("known", [1, 2])]
    assert errors == [
        [(0, missing)],
        [(9, missing), (1, ErrorCode.OFFSET_METADATA_TOO_LARGE), (-1, missing), (2, ErrorCode.NONE)],
        [(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED), (4, ErrorCode.TOPIC_AUTHORIZATION_FAILED)],
    ]


async def test_a_refusal_of_the_coordinator_is_the_error_of_what_exists() -> None:
    topics = [requested("known", 0, 3), requested("unknown", 0)]

    errors = await commit_existing(topics, Coordinator(ErrorCode.FENCED_INSTANCE_ID).commit)

    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [[(0, ErrorCode.FENCED_INSTANCE_ID), (3, missing)], [(0, missing)]]


async def test_where_nothing_exists_the_coordinator_is_not_bothered() -> None:
    errors = await commit_existing([requested("unknown", 0)], Coordinator(ErrorCode.NOT_COORDINATOR).commit)

    assert errors == [[(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]]


def test_topics_can_be_named_by_id() -> None:
    assert [each.partition_index for each in requested("", 0, 5, topic_id=KNOWN.id).existing] == [0]
    assert requested("", 0, topic_id=UUID(int=99)).errors(()) == [(0, ErrorCode.UNKNOWN_TOPIC_ID)]


@given(st.lists(st.tuples(st.sampled_from(("known", "unknown", "hidden")), st.lists(st.integers(-2, 5)))))
async def test_every_partition_is_answered_in_the_order_of_the_request(wanted: list[tuple[str, list[int]]]) -> None:
    topics: list[Any] = [requested(name, *indexes) for name, indexes in wanted]

    errors = await commit_existing(topics, Coordinator().commit)

    assert [[index for index, _ in each] for each in errors] == [indexes for _, indexes in wanted]
    for (name, _), each in zip(wanted, errors, strict=True):
        for index, error in each:
            assert (error in (ErrorCode.NONE, _error_of(1))) == (name == "known" and index in (0, 1, 2))
