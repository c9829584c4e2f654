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
    late(10, "FindCoordinator", 0, 6),
    late(18, "ApiVersions", 0, 4),
    late(19, "CreateTopics", 2, 7),
    late(20, "DeleteTopics", 1, 6),
    late(21, "DeleteRecords", 0, 2),
    late(22, "InitProducerId", 0, 5),
    late(23, "OffsetForLeaderEpoch", 2, 4),
    late(32, "DescribeConfigs", 1, 4),
    late(33, "AlterConfigs", 0, 2),
    late(35, "DescribeLogDirs", 1, 5),
    late(37, "CreatePartitions", 0, 3),
    late(43, "ElectLeaders", 0, 2),
    late(44, "IncrementalAlterConfigs", 0, 1),
    late(45, "AlterPartitionReassignments", 0, 1),
    late(46, "ListPartitionReassignments", 0, 0),
    late(55, "DescribeQuorum", 0, 2),
    late(57, "UpdateFeatures", 0, 2),
    late(60, "DescribeCluster", 0, 2),
    late(61, "DescribeProducers", 0, 0),
    late(74, "ListConfigResources", 0, 1),
    late(75, "DescribeTopicPartitions", 0, 0),
)
