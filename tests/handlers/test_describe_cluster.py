"""DescribeCluster."""

from __future__ import annotations

import pytest

from kompat.errors import ErrorCode
from tests.handlers.conftest import Asker

ALL_ON_CLUSTER = {5, 7, 8, 9, 10, 11, 12}


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(ask: Asker, version: int) -> None:
    answer = ask("DescribeCluster", version, include_cluster_authorized_operations=True)

    assert (answer.error_code, answer.controller_id) == (ErrorCode.NONE, 1)
    assert len(answer.cluster_id) == 22
    assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (1, ask.broker.host, ask.broker.port, None)
    ]
    assert answer.authorized_operations == ALL_ON_CLUSTER


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_a_broker_describes_no_controllers(ask: Asker, endpoint_type: int, code: ErrorCode) -> None:
    answer = ask("DescribeCluster", 1, endpoint_type=endpoint_type)

    assert (answer.error_code, answer.cluster_id, answer.controller_id, answer.brokers) == (code, "", -1, [])
    assert answer.error_message
