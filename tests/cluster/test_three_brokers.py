"""Three brokers in this process, asked over their sockets: whichever is asked, all tell the same, and do what is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kompat.testing
from kompat.errors import ErrorCode
from kompat.protocol.records import Record, build_batch
from kompat.testing import RunningCluster
from tests.handlers import wire
from tests.handlers.conftest import build

pytestmark = pytest.mark.slow

SETTINGS = {
    "default.replication.factor": 3,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
SECONDS = 20.0


@pytest.fixture(scope="module")
def three() -> Iterator[RunningCluster]:
    running = RunningCluster()
    try:
        for node in (1, 2, 3):
            running.start(node, settings={**SETTINGS, "broker.rack": f"rack-{node}"})
        yield running
    finally:
        running.stop_all()


def ask(cluster: RunningCluster, node: int, api: str, version: int, /, **fields: Any) -> Any:
    broker = cluster.brokers[node]
    return wire.ask((broker.host, broker.port), build(f"{api}Request", fields), version)


def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.02)
    return found


def create(cluster: RunningCluster, name: str, *replicas: list[int], node: int = 1) -> None:
    assignments = [{"partition_index": i, "broker_ids": nodes} for i, nodes in enumerate(replicas)]
    wanted = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    [created] = ask(cluster, node, "CreateTopics", 5, topics=[wanted], timeout_ms=10_000).topics
    assert created.error_code == ErrorCode.NONE, created


def partitions(cluster: RunningCluster, name: str, node: int = 1) -> list[Any]:
    [topic] = ask(cluster, node, "Metadata", 12, topics=[{"name": name}]).topics
    return list(topic.partitions)


def leader(cluster: RunningCluster, name: str) -> Any:
    """Once there is one that all brokers know of."""

    def agreed() -> Any:
        found = [partitions(cluster, name, node)[0] for node in cluster.brokers]
        same = {(p.leader_id, p.leader_epoch, tuple(p.isr_nodes)) for p in found}
        return found[0] if len(same) == 1 and found[0].leader_id > 0 else None

    return until(agreed, "a leader that all know of")


def produce(cluster: RunningCluster, node: int, name: str, *, acks: int = -1, version: int = 10) -> Any:
    batch = bytes(build_batch([Record(0, 1, b"k", b"v")]))
    topics = [{"name": name, "partition_data": [{"index": 0, "records": batch}]}]
    return ask(cluster, node, "Produce", version, acks=acks, timeout_ms=10_000, topic_data=topics)


def fetch(cluster: RunningCluster, node: int, name: str, *, offset: int = 0, version: int = 12, rack: str = "") -> Any:
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000}
    topics = [{"topic": name, "partitions": [wanted]}]
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1000, "topics": topics}
    answer = ask(cluster, node, "Fetch", version, replica_id=-1, rack_id=rack, **fields)
    return answer.responses[0].partitions[0]


# -- what they tell ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("node", [1, 2, 3])
def test_every_broker_tells_of_all(three: RunningCluster, node: int) -> None:
    told = ask(three, node, "Metadata", 12, topics=[])
    described = ask(three, node, "DescribeCluster", 2, endpoint_type=1, include_fenced_brokers=True)

    wanted = [(n, broker.port, f"rack-{n}") for n, broker in three.brokers.items()]
    assert [(b.node_id, b.port, b.rack) for b in told.brokers] == wanted
    assert [(b.broker_id, b.port, b.rack) for b in described.brokers] == wanted
    assert not any(b.is_fenced for b in described.brokers)
    assert told.controller_id == described.controller_id
    assert told.controller_id in three.brokers
    assert told.cluster_id == described.cluster_id == ask(three, 1, "Metadata", 12, topics=[]).cluster_id


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_topic_is_there_for_whoever_made_it(three: RunningCluster, node: int) -> None:
    create(three, f"made-{node}", [1, 2, 3], [2, 3, 1], node=node)

    found = partitions(three, f"made-{node}", node)
    assert [p.replica_nodes for p in found] == [[1, 2, 3], [2, 3, 1]]
    assert leader(three, f"made-{node}").offline_replicas == []


@pytest.mark.parametrize("node", [1, 2, 3])
def test_asking_for_a_topic_makes_it_on_all_brokers(three: RunningCluster, node: int) -> None:
    found = ask(three, node, "Metadata", 12, topics=[{"name": f"auto-{node}"}], allow_auto_topic_creation=True)

    assert found.topics[0].error_code == ErrorCode.NONE
    assert sorted(found.topics[0].partitions[0].replica_nodes) == [1, 2, 3]
    assert sorted(leader(three, f"auto-{node}").isr_nodes) == [1, 2, 3]


def test_refusals_come_from_the_controller(three: RunningCluster) -> None:
    for node in three.brokers:
        wanted = {"name": "wide", "num_partitions": 1, "replication_factor": 4}
        [refused] = ask(three, node, "CreateTopics", 5, topics=[wanted], timeout_ms=1000).topics
        assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_quorum_is_told_by_whoever_is_asked(three: RunningCluster) -> None:
    def quorum(node: int) -> Any:
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        return ask(three, node, "DescribeQuorum", 2, topics=topics)

    def has_three_voters() -> bool:
        [found] = quorum(1).topics[0].partitions
        return sorted(v.replica_id for v in found.current_voters) == [1, 2, 3]

    until(has_three_voters, "all three keep the metadata")
    for node in three.brokers:
        [found] = quorum(node).topics[0].partitions
        assert found.leader_id == ask(three, node, "Metadata", 12, topics=[]).controller_id
        assert found.observers == []
        assert [n.node_id for n in quorum(node).nodes] == [1, 2, 3]


# -- leaders and followers ---------------------------------------------------------------------------------------------
def test_who_comes_to_the_wrong_broker_is_told_the_right_one(three: RunningCluster) -> None:
    create(three, "led", [2, 3])
    led = leader(three, "led")
    follower = next(n for n in (2, 3) if n != led.leader_id)

    for node in (1, follower):
        answer = produce(three, node, "led")
        [partition] = answer.responses[0].partition_responses
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        told = partition.current_leader
        assert (told.leader_id, told.leader_epoch) == (led.leader_id, led.leader_epoch)
        [there] = answer.node_endpoints
        assert (there.node_id, there.port) == (led.leader_id, three.brokers[led.leader_id].port)
    [partition] = produce(three, led.leader_id, "led").responses[0].partition_responses
    assert (partition.error_code, partition.base_offset) == (ErrorCode.NONE, 0)
    listed = {
        n: ask(
            three,
            n,
            "ListOffsets",
            7,
            topics=[{"name": "led", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        )
        for n in three.brokers
    }
    codes = {n: answer.topics[0].partitions[0].error_code for n, answer in listed.items()}
    assert codes == {n: 0 if n == led.leader_id else ErrorCode.NOT_LEADER_OR_FOLLOWER for n in three.brokers}


@pytest.mark.parametrize("acks", [1, -1])
def test_what_was_acknowledged_is_read_from_any_replica(three: RunningCluster, acks: int) -> None:
    name = f"acks{acks}"
    create(three, name, [1, 2, 3])
    led = leader(three, name)
    [written] = produce(three, led.leader_id, name, acks=acks).responses[0].partition_responses
    assert written.error_code == ErrorCode.NONE

    for node in three.brokers:
        rack = f"rack-{node}"
        found = until(lambda n=node, r=rack: fetch(three, n, name, rack=r).records, f"broker {node} has the record")  # type: ignore[misc]
        assert found == fetch(three, led.leader_id, name).records
        assert fetch(three, node, name, rack=rack).high_watermark == 1


def test_an_old_client_and_one_without_a_rack_read_from_the_leader_only(three: RunningCluster) -> None:
    create(three, "old", [1, 2])
    led = leader(three, "old").leader_id

    assert fetch(three, 3 - led, "old").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(three, led, "old", version=10).error_code == ErrorCode.NONE
    assert fetch(three, 3 - led, "old", version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(three, 3, "old").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_does_not_say_that_an_offset_is_out_of_range(three: RunningCluster) -> None:
    create(three, "beyond", [1, 2])
    led = leader(three, "beyond").leader_id

    assert fetch(three, led, "beyond", offset=9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    beyond = fetch(three, 3 - led, "beyond", offset=9, rack=f"rack-{3 - led}")
    assert beyond.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_is_sent_to_the_replica_in_its_rack(three: RunningCluster) -> None:
    create(three, "near", [1, 2])
    led = leader(three, "near").leader_id
    other = 3 - led

    sent = fetch(three, led, "near", rack=f"rack-{other}")
    assert (sent.error_code, sent.preferred_read_replica) == (ErrorCode.NONE, other)
    assert fetch(three, led, "near", rack=f"rack-{led}").preferred_read_replica == -1
    assert fetch(three, led, "near", rack="rack-3").preferred_read_replica == -1
    assert fetch(three, other, "near", rack=f"rack-{other}").preferred_read_replica == -1


def test_an_epoch_that_is_not_the_leaders_is_refused(three: RunningCluster) -> None:
    create(three, "epochs", [1, 2, 3])
    led = leader(three, "epochs")

    def listed(epoch: int) -> int:
        wanted = {"partition_index": 0, "current_leader_epoch": epoch, "timestamp": -1}
        answer = ask(three, led.leader_id, "ListOffsets", 7, topics=[{"name": "epochs", "partitions": [wanted]}])
        return int(answer.topics[0].partitions[0].error_code)

    assert listed(led.leader_epoch) == ErrorCode.NONE
    assert listed(led.leader_epoch - 1) == ErrorCode.FENCED_LEADER_EPOCH
    assert listed(led.leader_epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH


# -- moves -------------------------------------------------------------------------------------------------------------
def reassign(cluster: RunningCluster, name: str, replicas: list[int] | None, node: int = 1) -> int:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "replicas": replicas}]}]
    answer = ask(cluster, node, "AlterPartitionReassignments", 1, topics=topics, timeout_ms=5000)
    return int(answer.responses[0].partitions[0].error_code)


def moving(cluster: RunningCluster, node: int) -> list[str]:
    return [t.name for t in ask(cluster, node, "ListPartitionReassignments", 0, topics=None, timeout_ms=1000).topics]


def test_a_partition_moves_with_all_that_is_in_it(three: RunningCluster) -> None:
    create(three, "moved", [1])
    leader(three, "moved")
    for _ in range(5):
        produce(three, 1, "moved")

    for target in ([1, 2, 3], [3, 2], [2]):
        assert reassign(three, "moved", target, node=2) == ErrorCode.NONE
        until(lambda: not any("moved" in moving(three, node) for node in three.brokers), f"moved to {target}")
        led = leader(three, "moved")
        assert led.replica_nodes == target
        assert led.leader_id in target
        until(lambda led=led: fetch(three, led.leader_id, "moved").high_watermark == 5, "all of it is there")  # type: ignore[misc]
    [written] = produce(three, 2, "moved").responses[0].partition_responses
    assert (written.error_code, written.base_offset) == (ErrorCode.NONE, 5)
    assert fetch(three, 1, "moved").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER  # its copy is gone


def test_there_is_nothing_to_cancel_where_nothing_moves(three: RunningCluster) -> None:
    create(three, "still", [1, 2])
    assert reassign(three, "still", None, node=3) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert reassign(three, "still", [1, 9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_the_preferred_replica_leads_when_it_is_asked_to(three: RunningCluster) -> None:
    create(three, "preferred", [1, 2, 3])
    was = leader(three, "preferred").leader_id
    wanted = 1 + was % 3
    order = [wanted, *(n for n in (1, 2, 3) if n != wanted)]
    assert reassign(three, "preferred", order) == ErrorCode.NONE
    until(lambda: all(partitions(three, "preferred", n)[0].replica_nodes == order for n in three.brokers), "reordered")

    def elect(node: int) -> int:
        topics = [{"topic": "preferred", "partitions": [0]}]
        answer = ask(three, node, "ElectLeaders", 2, election_type=0, topic_partitions=topics, timeout_ms=10_000)
        return int(answer.replica_election_results[0].partition_result[0].error_code)

    asked = 1 + wanted % 3
    assert elect(asked) == ErrorCode.NONE
    assert leader(three, "preferred").leader_id == wanted
    assert elect(asked) == ErrorCode.ELECTION_NOT_NEEDED


def test_settings_of_any_broker_can_be_changed_on_any(three: RunningCluster) -> None:
    def change(node: int, of: str) -> int:
        configs = [{"name": "log.retention.ms", "config_operation": 0, "value": "12345"}]
        resources = [{"resource_type": 4, "resource_name": of, "configs": configs}]
        answer = ask(three, node, "IncrementalAlterConfigs", 1, resources=resources)
        return int(answer.responses[0].error_code)

    assert change(3, "2") == ErrorCode.NONE
    assert change(2, "9") == ErrorCode.INVALID_REQUEST

    def retention() -> bool:
        resources = [{"resource_type": 4, "resource_name": "2", "configuration_keys": ["log.retention.ms"]}]
        answer = ask(three, 2, "DescribeConfigs", 4, resources=resources)
        return bool(answer.results[0].configs[0].value == "12345")

    until(retention, "the broker has heard of it")


def test_a_broker_that_is_there_registers_again(three: RunningCluster) -> None:
    assert ask(three, 1, "UnregisterBroker", 0, broker_id=9).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert ask(three, 1, "UnregisterBroker", 0, broker_id=3).error_code == ErrorCode.NONE
    until(lambda: len(ask(three, 2, "Metadata", 12, topics=[]).brokers) == 3, "it is back")


# -- losses ------------------------------------------------------------------------------------------------------------
def test_what_a_cluster_does_when_brokers_go() -> None:
    with kompat.testing.cluster(brokers=3, settings=SETTINGS | {"min.insync.replicas": 2}) as three:
        create(three, "kept", [1, 2, 3])
        led = leader(three, "kept")
        assert produce(three, led.leader_id, "kept").responses[0].partition_responses[0].error_code == ErrorCode.NONE
        three.stop(led.leader_id)

        now = until(
            lambda: next(
                (p for p in partitions(three, "kept", min(three.brokers)) if p.leader_id in three.brokers), None
            ),
            "another leads",
        )
        assert now.leader_epoch > led.leader_epoch
        [written] = produce(three, now.leader_id, "kept").responses[0].partition_responses
        assert (written.error_code, written.base_offset) == (ErrorCode.NONE, 1)
        until(
            lambda: partitions(three, "kept", now.leader_id)[0].offline_replicas == [led.leader_id],
            "it is known to be gone",
        )

        three.stop(next(n for n in three.brokers if n != now.leader_id))
        refusals = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        [refused] = produce(three, now.leader_id, "kept").responses[0].partition_responses
        assert refused.error_code in refusals
        until(lambda: partitions(three, "kept", now.leader_id)[0].leader_id == -1, "nobody can lead")
        assert partitions(three, "kept", now.leader_id)[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


# -- more than three ---------------------------------------------------------------------------------------------------
def test_in_a_large_cluster_five_keep_the_metadata_and_others_take_the_place_of_one_that_is_forgotten() -> None:
    def voters(cluster: RunningCluster) -> tuple[list[int], list[int]]:
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        [found] = ask(cluster, max(cluster.brokers), "DescribeQuorum", 2, topics=topics).topics[0].partitions
        return sorted(v.replica_id for v in found.current_voters), sorted(v.replica_id for v in found.observers)

    with kompat.testing.cluster(brokers=6, settings=SETTINGS) as six:
        until(lambda: voters(six) == ([1, 2, 3, 4, 5], [6]), "five voters and one that listens")
        create(six, "far", [6, 5], node=6)
        assert leader(six, "far").leader_id in (5, 6)
        six.stop(2)
        assert ask(six, 6, "UnregisterBroker", 0, broker_id=2).error_code == ErrorCode.NONE
        until(lambda: voters(six) == ([1, 3, 4, 5, 6], []), "the sixth in place of the second")
