"""Authorized operations: whoever asks is told what it may do. Without an authorizer that is everything.

Bits are Kafka's AclOperation numbers.
"""

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12

ON_TOPIC = frozenset({READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS})
ON_GROUP = frozenset({READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS})
ON_CLUSTER = frozenset({CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE})
NOT_ASKED = -(2**31)


def bits(operations: frozenset[int]) -> int:
    return sum(1 << operation for operation in operations)
