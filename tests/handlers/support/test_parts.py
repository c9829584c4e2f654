"""A long request is cut into parts, and their answers are put together as if it had not been."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kompat.handlers.support.parts import Cut, Part, cut_for, join, parts
from kompat.protocol.messages import ListOffsetsRequest, ListOffsetsResponse

Topic = ListOffsetsRequest.ListOffsetsTopic
Partition = Topic.ListOffsetsPartition
TopicAnswer = ListOffsetsResponse.ListOffsetsTopicResponse
PartitionAnswer = TopicAnswer.ListOffsetsPartitionResponse
CUT = Cut("topics", "topics", Cut("partitions", "partitions"))


def echo(request: Any) -> Any:
    return ListOffsetsResponse(
        topics=[
            TopicAnswer(
                name=t.name, partitions=[PartitionAnswer(partition_index=p.partition_index) for p in t.partitions]
            )
            for t in request.topics
        ]
    )


def asked(counts: list[int]) -> Any:
    return ListOffsetsRequest(
        topics=[
            Topic(name=f"t{number}", partitions=[Partition(partition_index=index) for index in range(count)])
            for number, count in enumerate(counts)
        ]
    )


def cut(request: Any, how: Cut, size: int) -> list[Part]:
    return [part for part in parts(request, how, size) if part is not None]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(1, 7))
def test_the_answers_to_all_parts_are_the_answer_to_the_whole(counts: list[int], size: int) -> None:
    request = asked(counts)
    first, *others = cut(request, CUT, size)
    answer = echo(first.request)
    for part in others:
        join(answer, echo(part.request), CUT, part.depth)

    assert answer == echo(request)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.integers(2, 7))
def test_no_part_has_more_items_than_asked_for(counts: list[int], size: int) -> None:
    for part in cut(asked(counts), CUT, size):
        assert sum(len(topic.partitions) for topic in part.request.topics) <= size


def test_one_that_comes_twice_is_in_the_same_part_and_a_third_is_left_out() -> None:
    request = ListOffsetsRequest(topics=[Topic(name=name) for name in ("a", "b", "c", "a", "a", "b")])
    by_name = Cut("topics", "topics", key=lambda topic: topic.name)

    found = [[topic.name for topic in part.request.topics] for part in cut(request, by_name, 2)]

    assert found == [["a", "a"], ["b", "b"], ["c"]]


def test_what_has_two_lists_is_not_cut() -> None:
    cuts = CUT, Cut("isolation_level", "topics")

    assert cut_for(cuts, asked([1])) is CUT
    request = asked([1])
    request.isolation_level = 1
    assert cut_for(cuts, request) is None


def test_an_error_of_a_part_is_one_of_the_whole() -> None:
    whole, part = ListOffsetsResponse(throttle_time_ms=0), ListOffsetsResponse(throttle_time_ms=7)
    join(whole, part, CUT, 0)

    assert whole.throttle_time_ms == 7
