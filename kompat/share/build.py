"""Builds share groups: the share coordinator and the share partitions of this broker."""

from __future__ import annotations

from collections.abc import Callable

from kompat.clock import Clock
from kompat.cluster.changes import Changes
from kompat.cluster.internal_topic import InternalTopic
from kompat.cluster.names import SHARE_GROUP_STATE
from kompat.cluster.service import ClusterService
from kompat.config.broker import BrokerConfig
from kompat.log.manager import Logs
from kompat.log.partition import Partition
from kompat.share.coordinator import ShareCoordinator
from kompat.share.events import SILENT, ShareEvents
from kompat.share.machine.order import Order
from kompat.share.persister import Persister
from kompat.share.service import DeadLetters, ShareService
from kompat.share.settings import share_settings


def build_shares(
    config: BrokerConfig,
    clock: Clock,
    cluster: ClusterService,
    logs: Logs,
    *,
    order_of: Callable[[Partition], Order],
    dead_letters: DeadLetters,
    events: ShareEvents = SILENT,
) -> ShareService:
    topic = InternalTopic(SHARE_GROUP_STATE, cluster, logs)
    shares = ShareService(
        ShareCoordinator(topic, cluster.rpc, clock),
        Persister(topic, cluster.rpc),
        cluster.rpc,
        logs=logs,
        settings=lambda group_id: share_settings(config, cluster, group_id),
        clock=clock,
        max_sessions=config["group.share.max.share.sessions"],
        order_of=order_of,
        dead_letters=dead_letters,
        events=events,
    )

    def changed(changes: Changes) -> None:
        if changes.groups or changes.configured or changes.topics:  # a queue topic configures its group
            shares.settings_changed()
        if changes.deleted:
            shares.topics_deleted(topic_id for _, topic_id in changes.deleted)

    cluster.watch(changed)
    config.watch(lambda _: shares.settings_changed())
    return shares
