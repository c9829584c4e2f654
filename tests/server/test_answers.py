"""Answers that are kept: the same while nothing changed, new when something did."""

import pytest

from kompat.server.answers import LONGEST_ANSWER, MOST, Answers
from kompat.testing import RunningBroker
from tests.handlers.wire import ask, message


def partitions(broker: RunningBroker, version: int) -> dict[str, int]:
    """All topics with their number of partitions, as Metadata tells them."""
    answer = ask(("127.0.0.1", broker.port), message("MetadataRequest")(topics=None), version)
    return {topic.name: len(topic.partitions) for topic in answer.topics}


def create(broker: RunningBroker, name: str, count: int) -> None:
    request = message("CreateTopicsRequest")
    topic = request.CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
    ask(("127.0.0.1", broker.port), request(topics=[topic], timeout_ms=1000, validate_only=False), 5)


@pytest.mark.parametrize("version", [1, 12])
def test_metadata_that_is_asked_for_again_is_the_same_until_something_changes(
    kompat_fresh_broker: RunningBroker, version: int
) -> None:
    create(kompat_fresh_broker, "a", 1)
    assert [partitions(kompat_fresh_broker, version) for _ in range(3)] == [{"a": 1}] * 3

    create(kompat_fresh_broker, "b", 2)

    assert [partitions(kompat_fresh_broker, version) for _ in range(3)] == [{"a": 1, "b": 2}] * 3


def test_an_answer_is_found_by_its_question_while_the_stamp_is_the_same() -> None:
    answers = Answers()
    assert answers.find(1, "who?") is None
    answers.remember(1, "who?", b"me")

    assert answers.find(1, "who?") == b"me"
    assert answers.find(1, "what?") is None
    assert answers.find(2, "who?") is None
    assert answers.find(1, "who?") is None


def test_an_answer_from_before_a_change_is_not_kept() -> None:
    answers = Answers()
    answers.find(2, "who?")
    answers.remember(1, "who?", b"me")

    assert answers.find(2, "who?") is None


def test_they_are_bounded() -> None:
    answers = Answers()
    answers.find(1, 0)
    answers.remember(1, "long", b"x" * (LONGEST_ANSWER + 1))
    for i in range(MOST + 1):
        answers.remember(1, i, b"x")

    assert answers.find(1, "long") is None
    assert sum(answers.find(1, i) is not None for i in range(MOST + 1)) <= MOST
