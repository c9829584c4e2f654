"""A replica that has lost the others."""

import pytest

from kompat.errors import ErrorCode, KafkaError
from tests.simulator.cluster import Cluster, run


def test_who_has_lost_the_lead_says_so_and_not_that_replicas_are_missing() -> None:
    """Else clients come again and again, and never look for the new leader."""

    async def test(cluster: Cluster) -> None:
        cluster.start()
        leader = await cluster.leader()
        cluster.isolate(leader.node_id)
        await cluster.until(lambda: not leader.replica.is_leading, 4)

        with pytest.raises(KafkaError) as raised:
            leader.replica.require_in_sync()
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(test, min_insync_replicas=2)
