"""The cluster as this broker sees it: the brokers, the controller, the partitions without a leader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kompat.types import LogId

if TYPE_CHECKING:
    from kompat.cluster.service import ClusterService
    from kompat.handlers.support.services import Services
    from kompat.metrics.page import Page


def gather(page: Page, services: Services) -> Iterator[None]:
    cluster = services.cluster
    page.add("kompat_active_controller", cluster.is_controller)
    page.add("kompat_brokers", max(1, len(cluster.brokers)))
    replication = cluster.local.replication
    page.add("kompat_raft_groups", len(replication))
    page.add("kompat_raft_proposals_total", replication.proposals)
    page.add("kompat_raft_replicas_in_doubt", replication.in_doubt)
    page.add("kompat_raft_elections_won_total", replication.elections_won)
    page.add("kompat_leader_changes_total", replication.leader_changes)
    yield
    offline = 0
    for node in list(cluster.brokers):
        if node != services.node_id:
            page.add("kompat_peer_up", cluster.local.leaders.is_up(node), str(node))
    if cluster.is_controller:
        for count in _offline(cluster):
            offline += count
            yield
    page.add("kompat_offline_partitions", offline)


def _offline(cluster: ClusterService) -> Iterator[int]:
    """For each topic, the number of partitions without a leader that can be reached."""
    for topic in list(cluster.topics()):
        yield sum(cluster.local.leader(LogId(topic.id, each.index)) is None for each in topic.partitions)
