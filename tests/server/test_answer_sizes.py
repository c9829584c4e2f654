import pytest

from kompat.protocol.messages import HeartbeatResponse, MetadataResponse, OffsetCommitResponse
from kompat.server.answer_sizes import SHORT, is_short

Topic = OffsetCommitResponse.OffsetCommitResponseTopic
Partition = Topic.OffsetCommitResponsePartition


def committed(*partitions: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[Topic(partitions=[Partition()] * count) for count in partitions])


def test_an_answer_without_arrays_is_short() -> None:
    assert is_short(HeartbeatResponse())


@pytest.mark.parametrize("partitions", [(), (0,), (SHORT - 1,), (SHORT - 2, 0), (1,) * (SHORT // 2)])
def test_an_answer_with_few_items_in_all_is_short(partitions: tuple[int, ...]) -> None:
    assert is_short(committed(*partitions))


@pytest.mark.parametrize("partitions", [(SHORT,), (SHORT - 2, 1), (0,) * (SHORT + 1), (1,) * (SHORT // 2 + 1)])
def test_items_of_items_count_too(partitions: tuple[int, ...]) -> None:
    assert not is_short(committed(*partitions))


def test_an_array_that_is_null_has_no_items() -> None:
    assert is_short(MetadataResponse(brokers=[], topics=None))
