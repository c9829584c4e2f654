"""Rules for topics, with the codes and words of Kafka 4.3."""

from uuid import UUID

import pytest

from kompat.cluster.internal import internal_topic
from kompat.cluster.requests import MorePartitions, NewTopic
from kompat.config.broker import BrokerConfig
from kompat.errors import ErrorCode, KafkaError
from tests.cluster.support import Cluster, created, refused


def test_a_topic_takes_partitions_and_replicas_from_the_brokers_settings() -> None:
    config = BrokerConfig({"num.partitions": "3", "default.replication.factor": "2"})
    topic = created(Cluster(brokers=3, config=config).create(NewTopic("t")))

    assert len(topic.partitions) == 3
    assert topic.replication_factor == 2


def test_leaders_take_turns_and_lead_with_their_first_replica() -> None:
    topic = created(Cluster(brokers=3).create(NewTopic("t", 4, 2), start=1))

    assert [p.replicas for p in topic.partitions] == [(2, 3), (3, 1), (1, 2), (2, 1)]
    for partition in topic.partitions:
        assert partition.leader == partition.replicas[0]
        assert partition.target == partition.replicas


def test_the_next_topic_starts_on_the_next_broker() -> None:
    cluster = Cluster(brokers=3)
    cluster.create(NewTopic("a", 1, 1), NewTopic("b", 1, 1))

    assert [cluster.machine.state.topics[name].partitions[0].leader for name in "ab"] == [1, 2]


@pytest.mark.parametrize(
    ("new", "code", "message"),
    [
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, None),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited."),
        (NewTopic("old"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
        (NewTopic("with_dot"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'with_dot' collides with existing topic: with.dot"),
        (NewTopic("t", 0), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("t", -2), ErrorCode.INVALID_PARTITIONS, None),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."),
        (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, None),
        (NewTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, None),
        (NewTopic("t", 10_001), ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."),
        (NewTopic("t", configs={"foo": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        (NewTopic("t", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (NewTopic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs: retention.ms"),
        (NewTopic("t", 1, 1, [(0, [1])]), ErrorCode.INVALID_REQUEST, "A manual partition assignment was specified, but replication factor was not set to -1."),
        (NewTopic("t", 3, -1, [(0, [1])]), ErrorCode.INVALID_REQUEST, "A manual partition assignment was specified, but numPartitions was not set to -1."),
        (NewTopic("t", assignments=[(0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes broker 2, but no such broker is registered."),
        (NewTopic("t", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."),
        (NewTopic("t", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes the broker 1 more than once."),
        (NewTopic("t", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"),
        (NewTopic("t", assignments=[(-1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"),
        (NewTopic("t", assignments=[(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Found multiple manual partition assignments for partition 0"),
    ],
)  # fmt: skip
def test_what_kafka_refuses_is_refused(new: NewTopic, code: ErrorCode, message: str | None) -> None:
    cluster = Cluster("old", "with.dot")

    refused(cluster.create(new), code, message)
    assert new.name not in cluster.machine.state.topics or new.name == "old"


def test_replicas_may_be_chosen_by_hand() -> None:
    topic = created(Cluster(brokers=3).create(NewTopic("t", assignments=[(1, [3, 1]), (0, [2, 3])])))

    assert [p.replicas for p in topic.partitions] == [(2, 3), (3, 1)]


def test_partitions_chosen_by_hand_have_equally_many_replicas() -> None:
    outcome = Cluster(brokers=3).create(NewTopic("t", assignments=[(0, [2, 3]), (1, [3])]))

    refused(outcome, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_validating_creates_nothing_but_tells_what_would_be() -> None:
    cluster = Cluster()

    assert len(created(cluster.create(NewTopic("t", 7), validate_only=True)).partitions) == 7
    assert not cluster.machine.state.topics


def test_one_bad_topic_does_not_keep_the_others_back() -> None:
    cluster = Cluster()
    cluster.create(NewTopic("good"), NewTopic("b d"), NewTopic("fine"))

    assert set(cluster.machine.state.topics) == {"good", "fine"}


def test_a_name_that_a_request_gives_twice_is_refused_for_both() -> None:
    cluster = Cluster()

    refused(cluster.create(NewTopic("t"), NewTopic("t")), ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert not cluster.machine.state.topics


def test_names_of_one_request_collide_with_each_other() -> None:
    cluster = Cluster()

    refused(cluster.create(NewTopic("a.b"), NewTopic("a_b")), ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert set(cluster.machine.state.topics) == {"a.b"}


def test_a_deleted_name_collides_no_more() -> None:
    cluster = Cluster("a.b")
    cluster.do(cluster.machine.delete_topics(["a.b"], config=cluster.config))

    created(cluster.create(NewTopic("a_b")))


# -- deleting ----------------------------------------------------------------------------------------------------------
def test_a_topic_is_deleted_by_name_or_by_id() -> None:
    cluster = Cluster("a", "b", "c")
    b = cluster.machine.state.topics["b"]

    found = cluster.do(cluster.machine.delete_topics(["a", b.id], config=cluster.config))

    assert created(found["a"]).name == "a"
    assert found[b.id] is b
    assert set(cluster.machine.state.topics) == {"c"}


def test_what_is_not_there_cannot_be_deleted() -> None:
    cluster = Cluster()
    found = cluster.do(cluster.machine.delete_topics(["a", UUID(int=5)], config=cluster.config))

    refused(found["a"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refused(found[UUID(int=5)], ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_topic_that_a_request_names_twice_stays() -> None:
    cluster = Cluster("a")
    a = cluster.machine.state.topics["a"]
    found = cluster.do(cluster.machine.delete_topics(["a", a.id], config=cluster.config))

    for outcome in found.values():
        refused(outcome, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert "a" in cluster.machine.state.topics


def test_no_topic_is_deleted_where_the_operator_forbids_it() -> None:
    cluster = Cluster("a", config=BrokerConfig({"delete.topic.enable": "false"}))

    refused(
        cluster.do(cluster.machine.delete_topics(["a"], config=cluster.config))["a"], ErrorCode.TOPIC_DELETION_DISABLED
    )
    assert "a" in cluster.machine.state.topics


# -- more partitions ---------------------------------------------------------------------------------------------------
def more(cluster: Cluster, *wanted: MorePartitions, validate_only: bool = False) -> KafkaError | None:
    found = cluster.do(cluster.machine.create_partitions(wanted, start=0, validate_only=validate_only))
    return found[wanted[-1].name]


def test_partitions_are_added_behind_those_there_are() -> None:
    cluster = Cluster("t", brokers=2)

    assert more(cluster, MorePartitions("t", 3)) is None
    assert [p.index for p in cluster.machine.state.topics["t"].partitions] == [0, 1, 2]
    assert more(cluster, MorePartitions("t", 4, [[2]])) is None
    assert cluster.machine.state.topics["t"].partitions[3].replicas == (2,)
    assert cluster.machine.state.topics_by_id[cluster.machine.state.topics["t"].id].partitions[3].index == 3


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (MorePartitions("t", 1), ErrorCode.INVALID_PARTITIONS, "Topic already has 1 partition(s)."),
        (MorePartitions("t", 0), ErrorCode.INVALID_PARTITIONS, "The topic t currently has 1 partition(s); 0 would not be an increase."),
        (MorePartitions("u", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (MorePartitions("t", 20_000), ErrorCode.POLICY_VIOLATION, None),
        (MorePartitions("t", 3, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        (MorePartitions("t", 2, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT, None),
        (MorePartitions("t", 2, [[2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, None),
        (MorePartitions("t", 2, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, None),
    ],
)  # fmt: skip
def test_partitions_that_kafka_would_not_add_are_refused(
    wanted: MorePartitions, code: ErrorCode, message: str | None
) -> None:
    refused(more(Cluster("t"), wanted), code, message)


def test_new_partitions_have_as_many_replicas_as_the_old_ones() -> None:
    refused(more(Cluster("t", brokers=2), MorePartitions("t", 2, [[1, 2]])), ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_adding_partitions_can_be_validated_only() -> None:
    cluster = Cluster("t")

    assert more(cluster, MorePartitions("t", 3), validate_only=True) is None
    assert len(cluster.machine.state.topics["t"].partitions) == 1


def test_a_topic_that_is_to_grow_twice_does_not_grow() -> None:
    refused(more(Cluster("t"), MorePartitions("t", 3), MorePartitions("t", 4)), ErrorCode.INVALID_REQUEST)


# -- internal topics ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "configs"),
    [
        ("__consumer_offsets", {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}),
        (
            "__transaction_state",
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": "104857600",
                "unclean.leader.election.enable": "false",
            },
        ),
        (
            "__share_group_state",
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": "1",
                "retention.ms": "-1",
                "segment.bytes": "104857600",
            },
        ),
    ],
)  # fmt: skip
def test_internal_topics_are_made_as_kafka_makes_them_on_one_broker(name: str, configs: dict[str, str]) -> None:
    cluster = Cluster()
    topic = created(cluster.create(internal_topic(name, cluster.config, 1), by_owner=True))

    assert topic.internal
    assert len(topic.partitions) == 50
    assert topic.replication_factor == 1
    assert topic.configs == configs


def test_no_internal_topic_waits_for_more_replicas_than_it_has() -> None:
    """Whatever topics of clients have to."""
    config = BrokerConfig({"min.insync.replicas": "3", "offsets.topic.replication.factor": "2"})

    assert internal_topic("__consumer_offsets", config, 5).configs["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in internal_topic("__consumer_offsets", BrokerConfig(), 5).configs
    assert internal_topic("__kompat_trace", config, 1).configs["min.insync.replicas"] == "1"


def test_internal_topics_have_three_replicas_where_there_are_brokers() -> None:
    assert internal_topic("__transaction_state", BrokerConfig(), 5).replication_factor == 3
    assert internal_topic("__transaction_state", BrokerConfig(), 5).configs["min.insync.replicas"] == "2"
