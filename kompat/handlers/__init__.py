"""Every API that this broker serves: this table is what ApiVersions advertises and what dispatch looks up."""

from typing import Any

from kompat.handlers import fetch, produce
from kompat.handlers.base import Api
from kompat.handlers.late import late

APIS: tuple[Api[Any, Any], ...] = (
    produce.API,
    fetch.API,
    late(2, "ListOffsets", 1, 11),
    late(3, "Metadata", 0, 13),
    late(8, "OffsetCommit", 2, 10),
    late(9, "OffsetFetch", 1, 10),
    late(10, "FindCoordinator", 0, 6),
    late(11, "JoinGroup", 0, 9),
    late(12, "Heartbeat", 0, 4),
    late(13, "LeaveGroup", 0, 5),
    late(14, "SyncGroup", 0, 5),
    late(15, "DescribeGroups", 0, 6),
    late(16, "ListGroups", 0, 5),
    late(18, "ApiVersions", 0, 4),
    late(19, "CreateTopics", 2, 7),
    late(20, "DeleteTopics", 1, 6),
    late(21, "DeleteRecords", 0, 2),
    late(22, "InitProducerId", 0, 5),
    late(23, "OffsetForLeaderEpoch", 2, 4),
    late(24, "AddPartitionsToTxn", 0, 5),
    late(25, "AddOffsetsToTxn", 0, 4),
    late(26, "EndTxn", 0, 5),
    late(27, "WriteTxnMarkers", 1, 2),
    late(28, "TxnOffsetCommit", 0, 5),
    late(32, "DescribeConfigs", 1, 4),
    late(33, "AlterConfigs", 0, 2),
    late(35, "DescribeLogDirs", 1, 5),
    late(37, "CreatePartitions", 0, 3),
    late(42, "DeleteGroups", 0, 2),
    late(43, "ElectLeaders", 0, 2),
    late(44, "IncrementalAlterConfigs", 0, 1),
    late(45, "AlterPartitionReassignments", 0, 1),
    late(46, "ListPartitionReassignments", 0, 0),
    late(47, "OffsetDelete", 0, 0),
    late(55, "DescribeQuorum", 0, 2),
    late(57, "UpdateFeatures", 0, 2),
    late(60, "DescribeCluster", 0, 2),
    late(61, "DescribeProducers", 0, 0),
    late(65, "DescribeTransactions", 0, 0),
    late(66, "ListTransactions", 0, 2),
    late(68, "ConsumerGroupHeartbeat", 0, 1),
    late(69, "ConsumerGroupDescribe", 0, 1),
    late(74, "ListConfigResources", 0, 1),
    late(75, "DescribeTopicPartitions", 0, 0),
)
