"""A request of every API that asks for rights, the rights it asks for, and what it is told without them.

The same requests are put to Apache Kafka (interop_tests/test_rights_differences.py): the table is what Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kompat.errors import ErrorCode
from kompat.protocol.records import Record, build_batch
from kompat.security.acls import CLUSTER_NAME, Kind, Operation

TOPIC, ABSENT, GROUP, TRANSACTION = "rights", "rights-absent", "rights-group", "rights-transaction"
MEMBER = "m" * 22

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
DENIALS = {TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TRANSACTION_DENIED}

Right = tuple[Operation, Kind, str]


@dataclass(frozen=True)
class Case:
    api: str
    version: int
    fields: Callable[[UUID], dict[str, Any]]  # of the topic's id
    needs: tuple[Right, ...]  # but for those that only count where the group, or the session, is there
    denied: ErrorCode
    title: str = ""

    def __str__(self) -> str:
        return f"{self.api}-v{self.version}{'-' if self.title else ''}{self.title}"


def _on_topic(operation: Operation, *names: str) -> tuple[Right, ...]:
    return tuple((operation, Kind.TOPIC, name) for name in names or (TOPIC,))


def _on_group(operation: Operation) -> Right:
    return (operation, Kind.GROUP, GROUP)


def _on_cluster(operation: Operation) -> tuple[Right, ...]:
    return ((operation, Kind.CLUSTER, CLUSTER_NAME),)


_WRITES_TRANSACTION: Right = (Operation.WRITE, Kind.TRANSACTIONAL_ID, TRANSACTION)


def _batch() -> bytes:
    return bytes(build_batch([Record(0, 1_700_000_000_000, None, b"value", ())]))


def _produce(**topic: Any) -> dict[str, Any]:
    data = [{"index": 0, "records": _batch()}]
    return {"acks": -1, "timeout_ms": 5000, "topic_data": [topic | {"partition_data": data}]}


def _fetch(**topic: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "session_epoch": -1}
    return limits | {"topics": [topic | {"partitions": [partition]}]}


def _offsets(**topic: Any) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return {"topics": [topic | {"partitions": [partition]}]}


def _config(kind: int, name: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name}]}


def _altered(kind: int, name: str, /, **config: Any) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
    return {"resources": [resource], "validate_only": True}


_ACL = {"principal": "User:x", "host": "*", "operation": 3, "permission_type": 3}
_FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "no-such",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_READ, _WRITE, _DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
_JOIN = {"group_id": GROUP, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
_SHARE = {"group_id": GROUP, "member_id": MEMBER}

CASES = (
    Case("Produce", 9, lambda _: _produce(name=TOPIC), _on_topic(_WRITE), TOPIC_DENIED),
    Case("Produce", 9, lambda _: _produce(name=ABSENT), _on_topic(_WRITE, ABSENT), TOPIC_DENIED, "absent"),
    Case("Produce", 13, lambda topic_id: _produce(topic_id=topic_id), _on_topic(_WRITE), TOPIC_DENIED),
    Case("Fetch", 12, lambda _: _fetch(topic=TOPIC), _on_topic(_READ), TOPIC_DENIED),
    Case("Fetch", 12, lambda _: _fetch(topic=ABSENT), _on_topic(_READ, ABSENT), TOPIC_DENIED, "absent"),
    Case("Fetch", 16, lambda topic_id: _fetch(topic_id=topic_id), _on_topic(_READ), TOPIC_DENIED),
    Case(
        "ListOffsets",
        7,
        lambda _: {
            "replica_id": -1,
            "topics": [{"name": n, "partitions": [{"partition_index": 0, "timestamp": -1}]} for n in (TOPIC, ABSENT)],
        },
        _on_topic(_DESCRIBE, TOPIC, ABSENT),
        TOPIC_DENIED,
    ),
    Case(
        "Metadata",
        12,
        lambda _: {"topics": [{"name": TOPIC}, {"name": ABSENT}], "allow_auto_topic_creation": False},
        _on_topic(_DESCRIBE, TOPIC, ABSENT),
        TOPIC_DENIED,
    ),
    Case(
        "Metadata",
        12,
        lambda topic_id: {"topics": [{"name": None, "topic_id": topic_id}], "allow_auto_topic_creation": False},
        _on_topic(_DESCRIBE),
        TOPIC_DENIED,
        "by-id",
    ),
    Case(
        "OffsetCommit",
        8,
        lambda _: {"group_id": GROUP, **_offsets(name=TOPIC)},
        (_on_group(_READ), *_on_topic(_READ)),
        GROUP_DENIED,
    ),
    Case(
        "OffsetCommit",
        10,
        lambda topic_id: {"group_id": GROUP, **_offsets(topic_id=topic_id)},
        (_on_group(_READ), *_on_topic(_READ)),
        GROUP_DENIED,
    ),
    Case(
        "OffsetFetch",
        1,
        lambda _: {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
        (_on_group(_DESCRIBE), *_on_topic(_DESCRIBE)),
        GROUP_DENIED,
    ),
    Case(
        "OffsetFetch",
        7,
        lambda _: {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
        (_on_group(_DESCRIBE), *_on_topic(_DESCRIBE)),
        GROUP_DENIED,
    ),
    Case(
        "OffsetFetch",
        9,
        lambda _: {"groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]},
        (_on_group(_DESCRIBE), *_on_topic(_DESCRIBE)),
        GROUP_DENIED,
    ),
    Case(
        "OffsetFetch",
        10,
        lambda topic_id: {
            "groups": [{"group_id": GROUP, "topics": [{"topic_id": topic_id, "partition_indexes": [0]}]}]
        },
        (_on_group(_DESCRIBE), *_on_topic(_DESCRIBE)),
        GROUP_DENIED,
    ),
    Case("FindCoordinator", 3, lambda _: {"key": GROUP, "key_type": 0}, (_on_group(_DESCRIBE),), GROUP_DENIED),
    Case(
        "FindCoordinator",
        4,
        lambda _: {"coordinator_keys": [TRANSACTION], "key_type": 1},
        ((_DESCRIBE, Kind.TRANSACTIONAL_ID, TRANSACTION),),
        TRANSACTION_DENIED,
    ),
    Case(
        "FindCoordinator",
        6,
        lambda topic_id: {"coordinator_keys": [f"{GROUP}:AAAAAAAAAAAAAAAAAAAAAQ:0"], "key_type": 2},
        _on_cluster(Operation.CLUSTER_ACTION),
        CLUSTER_DENIED,
    ),
    Case(
        "JoinGroup",
        5,
        lambda _: _JOIN | {"protocols": [{"name": "range", "metadata": b""}]},
        (_on_group(_READ),),
        GROUP_DENIED,
    ),
    Case("Heartbeat", 4, lambda _: {"group_id": GROUP, "member_id": MEMBER}, (_on_group(_READ),), GROUP_DENIED),
    Case(
        "LeaveGroup",
        4,
        lambda _: {"group_id": GROUP, "members": [{"member_id": MEMBER}]},
        (_on_group(_READ),),
        GROUP_DENIED,
    ),
    Case(
        "SyncGroup",
        5,
        lambda _: {"group_id": GROUP, "member_id": MEMBER, "protocol_type": "consumer", "protocol_name": "range"},
        (_on_group(_READ),),
        GROUP_DENIED,
    ),
    Case("DescribeGroups", 5, lambda _: {"groups": [GROUP]}, (_on_group(_DESCRIBE),), GROUP_DENIED),
    Case(
        "CreateTopics",
        7,
        lambda _: {
            "topics": [{"name": ABSENT, "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 5000,
            "validate_only": True,
        },
        _on_topic(Operation.CREATE, ABSENT),
        TOPIC_DENIED,
    ),
    Case(
        "DeleteTopics",
        6,
        lambda _: {"topics": [{"name": ABSENT}], "timeout_ms": 5000},
        _on_topic(Operation.DELETE, ABSENT),
        TOPIC_DENIED,
    ),
    Case(
        "DeleteRecords",
        2,
        lambda _: {
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}],
            "timeout_ms": 5000,
        },
        _on_topic(Operation.DELETE),
        TOPIC_DENIED,
    ),
    Case(
        "InitProducerId",
        4,
        lambda _: {"transactional_id": TRANSACTION, "transaction_timeout_ms": 10_000},
        (_WRITES_TRANSACTION,),
        TRANSACTION_DENIED,
    ),
    Case(
        "InitProducerId",
        4,
        lambda _: {"transactional_id": None, "transaction_timeout_ms": 10_000},
        _on_cluster(Operation.IDEMPOTENT_WRITE),
        CLUSTER_DENIED,
        "idempotent",
    ),
    Case(
        "OffsetForLeaderEpoch",
        4,
        lambda _: {"replica_id": -2, "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        _on_topic(_DESCRIBE),
        TOPIC_DENIED,
    ),
    Case(
        "AddPartitionsToTxn",
        3,
        lambda _: {
            "v3_and_below_transactional_id": TRANSACTION,
            "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
        },
        (_WRITES_TRANSACTION, *_on_topic(_WRITE)),
        TRANSACTION_DENIED,
    ),
    Case(
        "AddPartitionsToTxn",
        5,
        lambda _: {"transactions": [{"transactional_id": TRANSACTION, "topics": [{"name": TOPIC, "partitions": [0]}]}]},
        _on_cluster(Operation.CLUSTER_ACTION),
        CLUSTER_DENIED,
    ),
    Case(
        "AddOffsetsToTxn",
        3,
        lambda _: {"transactional_id": TRANSACTION, "group_id": GROUP},
        (_WRITES_TRANSACTION, _on_group(_READ)),
        TRANSACTION_DENIED,
    ),
    Case("EndTxn", 4, lambda _: {"transactional_id": TRANSACTION}, (_WRITES_TRANSACTION,), TRANSACTION_DENIED),
    Case(
        "WriteTxnMarkers",
        1,
        lambda _: {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "transaction_result": False,
                    "coordinator_epoch": 0,
                    "topics": [{"name": ABSENT, "partition_indexes": [0]}],
                }
            ]
        },
        _on_cluster(Operation.ALTER),
        CLUSTER_DENIED,
    ),
    Case(
        "TxnOffsetCommit",
        3,
        lambda _: {"transactional_id": TRANSACTION, "group_id": GROUP, **_offsets(name=TOPIC)},
        (_WRITES_TRANSACTION, _on_group(_READ), *_on_topic(_READ)),
        TRANSACTION_DENIED,
    ),
    Case("DescribeAcls", 3, lambda _: _FILTER, _on_cluster(_DESCRIBE), CLUSTER_DENIED),
    Case(
        "CreateAcls",
        3,
        lambda _: {"creations": [_ACL | {"resource_type": 2, "resource_name": "", "resource_pattern_type": 3}]},
        _on_cluster(Operation.ALTER),
        CLUSTER_DENIED,
    ),
    Case("DeleteAcls", 3, lambda _: {"filters": [_FILTER]}, _on_cluster(Operation.ALTER), CLUSTER_DENIED),
    Case("DescribeConfigs", 4, lambda _: _config(2, TOPIC), _on_topic(Operation.DESCRIBE_CONFIGS), TOPIC_DENIED),
    Case(
        "DescribeConfigs",
        4,
        lambda _: _config(4, "1"),
        _on_cluster(Operation.DESCRIBE_CONFIGS),
        CLUSTER_DENIED,
        "broker",
    ),
    Case(
        "DescribeConfigs",
        4,
        lambda _: _config(32, GROUP),
        (_on_group(Operation.DESCRIBE_CONFIGS),),
        GROUP_DENIED,
        "group",
    ),
    Case(
        "AlterConfigs",
        2,
        lambda _: _altered(2, TOPIC, name="retention.ms", value="1000"),
        _on_topic(Operation.ALTER_CONFIGS),
        TOPIC_DENIED,
    ),
    Case(
        "IncrementalAlterConfigs",
        1,
        lambda _: _altered(2, TOPIC, name="retention.ms", value="1000", config_operation=0),
        _on_topic(Operation.ALTER_CONFIGS),
        TOPIC_DENIED,
    ),
    Case(
        "IncrementalAlterConfigs",
        1,
        lambda _: _altered(4, "", name="log.retention.ms", value="1000", config_operation=0),
        _on_cluster(Operation.ALTER_CONFIGS),
        CLUSTER_DENIED,
        "broker",
    ),
    Case(
        "IncrementalAlterConfigs",
        1,
        lambda _: _altered(32, GROUP, name="consumer.session.timeout.ms", value="46000", config_operation=0),
        (_on_group(Operation.ALTER_CONFIGS),),
        GROUP_DENIED,
        "group",
    ),
    Case("DescribeLogDirs", 4, lambda _: {"topics": None}, _on_cluster(_DESCRIBE), CLUSTER_DENIED),
    Case(
        "CreatePartitions",
        3,
        lambda _: {"topics": [{"name": ABSENT, "count": 3, "assignments": None}], "timeout_ms": 5000},
        _on_topic(Operation.ALTER, ABSENT),
        TOPIC_DENIED,
    ),
    Case("DeleteGroups", 2, lambda _: {"groups_names": [GROUP]}, (_on_group(Operation.DELETE),), GROUP_DENIED),
    Case(
        "ElectLeaders",
        2,
        lambda _: {"election_type": 0, "topic_partitions": [{"topic": ABSENT, "partitions": [0]}], "timeout_ms": 1000},
        _on_cluster(Operation.ALTER),
        CLUSTER_DENIED,
    ),
    Case(
        "AlterPartitionReassignments",
        0,
        lambda _: {
            "timeout_ms": 1000,
            "topics": [{"name": ABSENT, "partitions": [{"partition_index": 0, "replicas": None}]}],
        },
        _on_cluster(Operation.ALTER),
        CLUSTER_DENIED,
    ),
    Case(
        "ListPartitionReassignments",
        0,
        lambda _: {"timeout_ms": 1000, "topics": None},
        _on_cluster(_DESCRIBE),
        CLUSTER_DENIED,
    ),
    Case(
        "OffsetDelete",
        0,
        lambda _: {"group_id": GROUP, "topics": [{"name": ABSENT, "partitions": [{"partition_index": 0}]}]},
        (_on_group(Operation.DELETE),),
        GROUP_DENIED,
    ),
    Case(
        "DescribeClientQuotas",
        1,
        lambda _: {"components": [], "strict": False},
        _on_cluster(Operation.DESCRIBE_CONFIGS),
        CLUSTER_DENIED,
    ),
    Case(
        "AlterClientQuotas",
        1,
        lambda _: {
            "entries": [{"entity": [{"entity_type": "user", "entity_name": "x"}], "ops": []}],
            "validate_only": True,
        },
        _on_cluster(Operation.ALTER_CONFIGS),
        CLUSTER_DENIED,
    ),
    Case(
        "DescribeUserScramCredentials",
        0,
        lambda _: {"users": [{"name": "nobody"}]},
        _on_cluster(_DESCRIBE),
        CLUSTER_DENIED,
    ),
    Case(
        "AlterUserScramCredentials",
        0,
        lambda _: {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []},
        _on_cluster(Operation.ALTER),
        CLUSTER_DENIED,
    ),
    Case(
        "DescribeQuorum",
        1,
        lambda _: {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        _on_cluster(_DESCRIBE),
        CLUSTER_DENIED,
    ),
    Case(
        "UpdateFeatures",
        1,
        lambda _: {"timeout_ms": 1000, "feature_updates": [], "validate_only": True},
        _on_cluster(Operation.ALTER),
        CLUSTER_DENIED,
    ),
    Case(
        "DescribeProducers",
        0,
        lambda _: {"topics": [{"name": TOPIC, "partition_indexes": [0]}]},
        _on_topic(_READ),
        TOPIC_DENIED,
    ),
    Case("UnregisterBroker", 0, lambda _: {"broker_id": 99}, _on_cluster(Operation.ALTER), CLUSTER_DENIED),
    Case(
        "DescribeTransactions",
        0,
        lambda _: {"transactional_ids": [TRANSACTION]},
        ((_DESCRIBE, Kind.TRANSACTIONAL_ID, TRANSACTION),),
        TRANSACTION_DENIED,
    ),
    Case(
        "ConsumerGroupHeartbeat",
        1,
        lambda _: {
            "group_id": f"{GROUP}-consumers",
            "member_id": MEMBER,
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
        },
        ((_READ, Kind.GROUP, f"{GROUP}-consumers"), *_on_topic(_DESCRIBE)),
        GROUP_DENIED,
    ),
    Case("ConsumerGroupDescribe", 0, lambda _: {"group_ids": [GROUP]}, (_on_group(_DESCRIBE),), GROUP_DENIED),
    Case(
        "ListConfigResources",
        1,
        lambda _: {"resource_types": []},
        _on_cluster(Operation.DESCRIBE_CONFIGS),
        CLUSTER_DENIED,
    ),
    Case(
        "DescribeTopicPartitions",
        0,
        lambda _: {"topics": [{"name": TOPIC}, {"name": ABSENT}], "response_partition_limit": 10, "cursor": None},
        _on_topic(_DESCRIBE, TOPIC, ABSENT),
        TOPIC_DENIED,
    ),
    Case(
        "ShareGroupHeartbeat",
        1,
        lambda _: {
            "group_id": f"{GROUP}-sharers",
            "member_id": MEMBER,
            "member_epoch": 0,
            "subscribed_topic_names": [TOPIC],
        },
        ((_READ, Kind.GROUP, f"{GROUP}-sharers"), *_on_topic(_DESCRIBE)),
        GROUP_DENIED,
    ),
    Case("ShareGroupDescribe", 1, lambda _: {"group_ids": [GROUP]}, (_on_group(_DESCRIBE),), GROUP_DENIED),
    Case(
        "ShareFetch",
        1,
        lambda topic_id: (
            _SHARE
            | {
                "share_session_epoch": 0,
                "max_wait_ms": 0,
                "max_bytes": 1000,
                "max_records": 10,
                "batch_size": 10,
                "topics": [{"topic_id": topic_id, "partitions": [{"partition_index": 0}]}],
            }
        ),
        (_on_group(_READ), *_on_topic(_READ)),
        GROUP_DENIED,
    ),
    Case(
        "ShareAcknowledge",
        1,
        lambda topic_id: (
            _SHARE
            | {
                "share_session_epoch": 1,
                "topics": [
                    {
                        "topic_id": topic_id,
                        "partitions": [
                            {
                                "partition_index": 0,
                                "acknowledgement_batches": [
                                    {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
                                ],
                            }
                        ],
                    }
                ],
            }
        ),
        (_on_group(_READ),),
        GROUP_DENIED,
    ),
    Case(
        "DescribeShareGroupOffsets",
        0,
        lambda _: {"groups": [{"group_id": GROUP, "topics": [{"topic_name": TOPIC, "partitions": [0]}]}]},
        (_on_group(_DESCRIBE), *_on_topic(_DESCRIBE)),
        GROUP_DENIED,
    ),
    Case(
        "AlterShareGroupOffsets",
        0,
        lambda _: {
            "group_id": f"{GROUP}-new",
            "topics": [{"topic_name": ABSENT, "partitions": [{"partition_index": 0, "start_offset": 0}]}],
        },
        ((_READ, Kind.GROUP, f"{GROUP}-new"), *_on_topic(_READ, ABSENT)),
        GROUP_DENIED,
    ),
    Case(
        "DeleteShareGroupOffsets",
        0,
        lambda _: {"group_id": GROUP, "topics": [{"topic_name": ABSENT}]},
        (_on_group(Operation.DELETE),),
        GROUP_DENIED,
    ),
)

# APIs that everybody may use, and those that leave out what their client may not see.
FREE = frozenset(
    {
        "ApiVersions",
        "SaslHandshake",
        "SaslAuthenticate",
        "GetTelemetrySubscriptions",
        "PushTelemetry",
        "DescribeCluster",
    }
)
FILTERED = frozenset({"ListGroups", "ListTransactions"})
