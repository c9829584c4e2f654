"""The settings of a group's share partitions, from the configs of the group and of its queue topic, if it has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kompat.cluster import dead_letters, queue_rules
from kompat.cluster.service import ClusterService
from kompat.config.broker import BrokerConfig
from kompat.config.topics import topic_config
from kompat.share.machine.settings import DEFAULT_QUEUE_BACKOFF_MS, ShareSettings

DEFAULT_DEAD_LETTER_TOPIC = "dlq.<topic>"  # of queues: share groups have none unless it is configured
RELEASE_BACKOFF = "kompat.share.release.backoff.ms"
OFFSET_RESET = "share.auto.offset.reset"


def share_settings(config: BrokerConfig, cluster: ClusterService, group_id: str) -> ShareSettings:
    setting: Callable[[str], Any] = partial(cluster.group_setting, group_id)
    has_backoff = cluster.has_group_setting(group_id, RELEASE_BACKOFF)
    settings = ShareSettings(
        lock_ms=setting("share.record.lock.duration.ms"),
        delivery_limit=setting("share.delivery.count.limit"),
        max_locks=setting("share.partition.max.record.locks"),
        offset_reset=setting(OFFSET_RESET),
        is_read_committed=setting("share.isolation.level") == "read_committed",
        can_renew=setting("share.renew.acknowledge.enable"),
        backoff_ms=setting(RELEASE_BACKOFF),
        max_backoff_ms=setting("kompat.share.release.backoff.max.ms"),
        has_dead_letters=bool(setting(dead_letters.SETTING)),
        receipt_backoff_ms=setting(RELEASE_BACKOFF) if has_backoff else DEFAULT_QUEUE_BACKOFF_MS,
        has_receipt_dead_letters=bool(dead_letter_topic(cluster, group_id)),
    )
    return _of_queue(config, cluster, group_id, settings)


def dead_letter_topic(cluster: ClusterService, group_id: str) -> str:
    """The group's dead-letter topic, if it has one; `<topic>` stands for the topic of the record."""
    if not cluster.has_group_setting(group_id, dead_letters.SETTING):
        return DEFAULT_DEAD_LETTER_TOPIC
    return str(cluster.group_setting(group_id, dead_letters.SETTING))


def _of_queue(config: BrokerConfig, cluster: ClusterService, group_id: str, settings: ShareSettings) -> ShareSettings:
    """A queue topic is a group of the same name, configured by the topic's configs."""
    topic = cluster.topic(group_id)
    if topic is None or not topic.configs.get(queue_rules.SOURCE):
        return settings
    of_topic = topic_config(topic.configs, config)
    has_reset = cluster.has_group_setting(group_id, OFFSET_RESET)
    return replace(
        settings.of_receipts(),
        lock_ms=of_topic.kompat_queue_lock_ms,
        delivery_limit=of_topic.kompat_queue_max_deliveries,
        # Consumers of a queue expect the records from before they joined.
        offset_reset=settings.offset_reset if has_reset else "earliest",
    )
