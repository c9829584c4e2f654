"""Builds the group coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from kompat.clock import Clock
from kompat.cluster.changes import Changes
from kompat.cluster.internal_topic import InternalTopic
from kompat.cluster.names import CONSUMER_OFFSETS
from kompat.cluster.service import ClusterService
from kompat.config.broker import BrokerConfig
from kompat.groups.cluster_topics import ClusterTopics
from kompat.groups.commits import CommitEvents
from kompat.groups.service import GroupExtension, GroupService
from kompat.groups.settings import group_settings
from kompat.log.manager import Logs


def build_groups(
    config: BrokerConfig,
    clock: Clock,
    cluster: ClusterService,
    logs: Logs,
    extensions: Sequence[GroupExtension],
    events: CommitEvents | None = None,
) -> GroupService:
    groups = GroupService(
        InternalTopic(CONSUMER_OFFSETS, cluster, logs),
        settings=lambda: group_settings(config, cluster),
        topics=ClusterTopics(cluster),
        clock=clock,
        extensions=extensions,
        events=events,
    )

    def changed(changes: Changes) -> None:
        if changes.groups:
            groups.settings_changed()
        if changes.topics:
            groups.topics_changed(changes.topics, changes.deleted)

    cluster.watch(changed)
    config.watch(lambda _: groups.settings_changed())
    return groups
