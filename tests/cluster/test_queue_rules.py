"""Which topics may be queues, and of what."""

from __future__ import annotations

import pytest

from kompat.cluster import queue_rules
from kompat.cluster.queue_rules import SOURCE
from kompat.cluster.state import ClusterState, Topic
from kompat.errors import ErrorCode, KafkaError
from tests.cluster.support import ids


def a_cluster(**topics: dict[str, str]) -> ClusterState:
    state = ClusterState()
    for (name, configs), topic_id in zip(topics.items(), ids(), strict=False):
        state.put_topic(Topic(name, topic_id, (), configs))
    return state


CLUSTER = a_cluster(orders={}, work={SOURCE: "orders"}, __consumer_offsets={})


@pytest.mark.parametrize(
    ("configs", "told"),
    [
        ({SOURCE: "nothere"}, "there is no topic nothere"),
        ({SOURCE: "work"}, "a queue topic itself"),
        ({SOURCE: "new"}, "queue of itself"),
        ({SOURCE: "__consumer_offsets"}, "the broker's own"),
        ({SOURCE: "orders", "cleanup.policy": "compact"}, "cleanup.policy"),
        ({SOURCE: "orders", "kompat.delivery.order": "priority"}, "not for itself"),
    ],
)
def test_a_queue_that_could_not_work_is_not_created(configs: dict[str, str], told: str) -> None:
    with pytest.raises(KafkaError, match=told) as raised:
        queue_rules.check_new(CLUSTER, "new", configs)
    assert raised.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("configs", [{}, {SOURCE: ""}, {SOURCE: "orders"}, {SOURCE: "orders", "retention.ms": "5"}])
def test_others_are(configs: dict[str, str]) -> None:
    queue_rules.check_new(CLUSTER, "new", configs)


@pytest.mark.parametrize(
    ("before", "wanted"),
    [({}, {SOURCE: "orders"}), ({SOURCE: "orders"}, {}), ({SOURCE: "orders"}, {SOURCE: "other"})],
)
def test_what_a_topic_was_created_as_it_stays(before: dict[str, str], wanted: dict[str, str]) -> None:
    with pytest.raises(KafkaError, match="stays so"):
        queue_rules.check_change("work", before, wanted)


def test_other_settings_of_a_queue_may_change() -> None:
    queue_rules.check_change("work", {SOURCE: "orders"}, {SOURCE: "orders", "kompat.queue.lock.ms": "5"})
    with pytest.raises(KafkaError, match=r"cleanup\.policy"):
        queue_rules.check_change("work", {SOURCE: "orders"}, {SOURCE: "orders", "cleanup.policy": "compact"})


def test_a_queue_keeps_nothing_by_age_unless_somebody_says_so() -> None:
    assert queue_rules.with_defaults({}) == {}
    assert queue_rules.with_defaults({SOURCE: "orders"})["retention.ms"] == "-1"
    assert queue_rules.with_defaults({SOURCE: "orders", "retention.ms": "9"})["retention.ms"] == "9"
