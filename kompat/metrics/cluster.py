"""The cluster as this broker sees it: who is there, who controls, which partitions nobody leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kompat.types import LogId

if TYPE_CHECKING:
    from kompat.cluster.member import Member
    from kompat.cluster.service import ClusterService
    from kompat.handlers.services import Services
    from kompat.metrics.page import Page


def gather(page: Page, services: Services) -> Iterator[None]:
    cluster = services.cluster
    page.add("kompat_active_controller", cluster.is_controller)
    member = cluster.member
    page.add("kompat_brokers", max(1, len(cluster.brokers)))
    replication = member.replication if member is not None else None
    page.add("kompat_raft_groups", len(replication) if replication is not None else 0)
    page.add("kompat_raft_proposals_total", replication.proposals if replication is not None else 0)
    page.add("kompat_raft_replicas_in_doubt", replication.in_doubt if replication is not None else 0)
    page.add("kompat_raft_elections_won_total", replication.elections_won if replication is not None else 0)
    page.add("kompat_leader_changes_total", replication.leader_changes if replication is not None else 0)
    yield
    offline = 0
    if member is not None:
        for node in list(cluster.brokers):
            if node != services.node_id:
                page.add("kompat_peer_up", member.leaders.is_up(node), str(node))
        if cluster.is_controller:
            for count in _offline(cluster, member):
                offline += count
                yield
    page.add("kompat_offline_partitions", offline)


def _offline(cluster: ClusterService, member: Member) -> Iterator[int]:
    """Of one topic after the other, how many partitions have no leader that could be reached."""
    for topic in list(cluster.topics()):
        found = (member.leaders.of(LogId(topic.id, each.index)) for each in topic.partitions)
        yield sum(led is None or led.leader is None for led in found)
